"""Who gives an order, and what they may do."""

from dataclasses import dataclass, replace

from django.contrib.auth import get_user_model
from django.db.models import Q


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """Somebody with an account. `may_stop_any` is `kernel.stop_any_execution`, `may_panic` `kernel.panic`."""

    id: int
    name: str
    may_stop_any: bool = False
    may_panic: bool = False

    @property
    def sees(self) -> Q:
        """Whose live executions this person is told the number of."""
        return Q() if self.may_panic else Q(user_id=self.id)


def with_permissions(person: Person) -> Person:
    """The same person with the permissions of now; none for an account that is gone or no longer active."""
    user = get_user_model().objects.filter(pk=person.id, is_active=True).first()
    return replace(
        person,
        may_panic=bool(user and user.has_perm("kernel.panic")),
        may_stop_any=bool(user and user.has_perm("kernel.stop_any_execution")),
    )
