"""Give each message its status. What was stored before messages had one is over: its rows become `completed`."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0001_initial")]

    operations = [
        # The default is written to every existing row by the same statement that adds the column; nothing is left to
        # fill afterwards. Reversed, the column goes and the messages stay.
        migrations.AddField(
            model_name="chatmessage",
            name="status",
            field=models.CharField(
                choices=[
                    ("streaming", "Streaming"),
                    ("completed", "Completed"),
                    ("error", "Error"),
                    ("aborted", "Aborted"),
                ],
                default="completed",
                max_length=16,
            ),
        ),
    ]
