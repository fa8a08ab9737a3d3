"""Let the first operator in: an account without a password, and a one-time login link."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from studio.login_link import make_login_link

OPERATOR = "operator"


class Command(BaseCommand):
    """Creates the account where no superuser exists. It gets a link until it has been used, and on `--new-link`."""

    help = "Create the first operator, and print a one-time login link."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--new-link", action="store_true", help="print a new link for a superuser that exists")
        parser.add_argument("--user", help="whose link; default: the first superuser")
        parser.add_argument("--base-url", default="http://127.0.0.1:8000", help="where the studio is (%(default)s)")

    def handle(self, *, new_link: bool, user: str | None, base_url: str, **options: Any) -> None:
        operator = _superuser(user) or self._created(user)
        if new_link or not (operator.last_login or operator.has_usable_password()):
            self.stdout.write(f"Log in as {operator.get_username()!r} once with this link:")
            self.stdout.write(f"  {make_login_link(operator, base_url)}")
        else:
            self.stdout.write(f"For a new login link: {_python()} manage.py first_operator --new-link")

    def _created(self, wanted: str | None) -> User:
        users = get_user_model().objects
        if wanted:
            raise CommandError(f"There is no active superuser {wanted!r}.")
        if users.filter(username=OPERATOR).exists():
            raise CommandError(
                f"No superuser is active, and the name {OPERATOR!r} is taken. Create one: manage.py createsuperuser"
            )
        self.stdout.write(f"Created the first operator, {OPERATOR!r}, without a password.")
        return users.create_superuser(OPERATOR)


def _python() -> str:
    """What to type for the Python that runs this: the one of `make`, or whatever is on the path."""
    return ".venv/bin/python" if Path(sys.prefix) == settings.BASE_DIR / ".venv" else "python"


def _superuser(name: str | None) -> User | None:
    superusers = get_user_model().objects.filter(is_superuser=True, is_active=True).order_by("pk")
    return (superusers.filter(username=name) if name else superusers).first()
