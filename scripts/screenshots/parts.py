"""What the people of the pictures write, and what the provider plays to it."""

from scripts.screenshots.provider import SLOWLY_S, Part

PLAN = "Draft the migration plan for the orders database, with what each step costs us."
LONG = "Go through every open ticket of the spring release and sum up what is left to do."
REPORT = "Write the quarterly report from the figures of last week."
SILENT = "Compare the three hosting offers."
BROKEN = "Translate the handbook into Portuguese."
ADD = "What do 14 licences at 39.90 a month cost in a year?"
QUIETLY = "Read the incident log of Tuesday and tell me when it began."

MARKDOWN = """\
The move takes **three steps**; each can be undone until the last.

| step | downtime | cost |
| --- | ---: | ---: |
| copy and follow | none | 120 € |
| switch the readers | none | 40 € |
| switch the writer | 90 s | 15 € |

1. Start the replica and wait until it follows within a second.
2. Point the reports at it:

```sql
ALTER ROLE reports SET search_path = orders_v2;
SELECT count(*) FROM orders WHERE moved_at IS NULL;
```

3. On Sunday at six, stop the writer, compare the sums, switch."""

PARAGRAPHS = """\
There are 23 open tickets. I read them in the order of their last change.

**Checkout** has the most: the rounding of discounts is wrong for two currencies, and the new address form loses the \
house number when the country is changed afterwards. Both have a failing test already; neither blocks the others.

**Search** has two about ranking that wait for a decision, and one that is done but not merged. **Accounts** has the \
oldest one: sessions stay valid after a change of the password. """

PARTS = {
    PLAN: Part(text=MARKDOWN),
    LONG: Part(text=PARAGRAPHS, every_s=SLOWLY_S, goes_on=True),
    REPORT: Part(text=PARAGRAPHS, every_s=SLOWLY_S, goes_on=True),
    QUIETLY: Part(text=PARAGRAPHS, every_s=SLOWLY_S, goes_on=True),
    SILENT: Part(text="The first offer is the cheapest one as long as the traffic stays below", hangs=True),
    BROKEN: Part(text="The model is overloaded with other requests. Please retry later.", status=400),
    ADD: Part(
        text="14 licences cost **6,703.20** a year: 14 × 39.90 × 12.",
        call=("calculate", {"expression": "14 * 39.90 * 12"}),
    ),
}
