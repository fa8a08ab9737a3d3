"""Django's settings, all from the environment (docs/operations.md lists each variable). No connection is opened."""

import hashlib
import os
import sys
import tempfile
from pathlib import Path

from csp.constants import NONCE, NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key

from studio import env

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"

DEBUG = env.flag("DJANGO_DEBUG")
# Plain http on loopback: `make run`, the tests and Django's own development server say so; production does not.
INSECURE_HTTP = env.flag("STUDIO_INSECURE_HTTP", default=sys.argv[1:2] == ["runserver"])
ALLOWED_HOSTS = env.items("DJANGO_ALLOWED_HOSTS") or ["localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = env.items("DJANGO_CSRF_TRUSTED_ORIGINS")


def secret_key() -> str:
    """The key of the environment; on a developer's machine, one made once and kept beside the database."""
    key = env.text("DJANGO_SECRET_KEY")
    if key:
        return key
    if env.text("DATABASE_URL").startswith(("postgres", "pgsql")):
        raise ImproperlyConfigured("Set DJANGO_SECRET_KEY: every worker of one studio must share it.")
    kept = VAR_DIR / "secret_key"
    try:
        VAR_DIR.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=VAR_DIR, encoding="ascii") as file:  # readable by its owner only
            file.write(get_random_secret_key())
            file.flush()
            os.link(file.name, kept)  # whole or not at all, and never over an earlier one
    except FileExistsError:
        pass  # an earlier start made it
    except OSError as error:
        raise ImproperlyConfigured(f"Set DJANGO_SECRET_KEY: {kept} cannot be written ({error}).") from error
    return kept.read_text(encoding="ascii")


SECRET_KEY = secret_key()

INSTALLED_APPS = [
    "daphne",
    "kernel",
    "chat",
    "studio",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "csp",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "studio.urls"
ASGI_APPLICATION = "studio.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
            ],
        },
    },
]

# Database: the ledger. SQLite takes its write lock at BEGIN, so that a transaction that reads and then writes never
# fails half-way, and so that admission and panic exclude each other (kernel.models).
DATABASES = {
    "default": env.database(
        "DATABASE_URL", f"sqlite:///{VAR_DIR / 'studio.sqlite3'}", conn_max_age=600, conn_health_checks=True
    )
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    Path(DATABASES["default"]["NAME"]).parent.mkdir(parents=True, exist_ok=True)
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 10,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
    # A file, because the workers' threads share it as they do in production.
    DATABASES["default"]["TEST"] = {"NAME": str(VAR_DIR / "test.sqlite3")}
if DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    # A host that vanishes must raise, so that a stop says so and an end is tried again, instead of holding a thread.
    # A process that freezes in the middle of a transaction loses its locks before a panic gives up (kernel.control).
    DATABASES["default"]["OPTIONS"] = {
        "connect_timeout": 5,
        "tcp_user_timeout": 10_000,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "options": "-c statement_timeout=30s -c lock_timeout=10s -c idle_in_transaction_session_timeout=3s",
        **DATABASES["default"].get("OPTIONS", {}),
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.text("REDIS_URL")
# Of this studio alone, as its key is: pub/sub knows no database numbers, and a Redis may serve several studios.
REDIS_PREFIX = f"studio-{hashlib.sha256(SECRET_KEY.encode()).hexdigest()[:16]}-"
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # redis-py's own limit of 5 s ends every idle subscription.
        "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": 30}], "prefix": REDIS_PREFIX},
    }
    if REDIS_URL
    else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
}
# Counts of failed logins; shared by the workers where there is a Redis.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": REDIS_PREFIX,
        "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 1},
    }
    if REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}

# People
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

# Transport
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not INSECURE_HTTP
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_SSL_REDIRECT = not INSECURE_HTTP
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_HSTS_SECONDS = 0 if INSECURE_HTTP else 3600
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

# Texts
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("pt-br", "Português (Brasil)"), ("ru", "Русский")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_TZ = True
TIME_ZONE = "UTC"

# Static files: served by the application itself, straight from where they lie; nothing has to be collected.
STATIC_URL = "static/"
NODE_MODULES = BASE_DIR / "node_modules"
STATICFILES_DIRS = [
    (f"vendor/{package}", NODE_MODULES / package / folder)
    for package, folder in (("marked", "lib"), ("dompurify", "dist"), ("@highlightjs/cdn-assets", "es"))
    if (NODE_MODULES / package / folder).is_dir()
]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# The studio's own (kernel.conf reads these; the names are the environment's)
STUDIO_MODEL = env.text("STUDIO_MODEL")
STUDIO_TITLE_MODEL = env.text("STUDIO_TITLE_MODEL")
STUDIO_FAST_LANE = env.flag("STUDIO_FAST_LANE", default=True)
STUDIO_TOOLS = env.items("STUDIO_TOOLS", default=["kernel.tools.builtin", "chat.past_sessions"])
# What nobody asked for is offered only to models that are known to call tools: some servers refuse the whole request.
STUDIO_TOOLS_CHOSEN = "STUDIO_TOOLS" in os.environ
STUDIO_MAX_STEPS = env.count("STUDIO_MAX_STEPS", 8)
STUDIO_MAX_OUTPUT_TOKENS = env.limit("STUDIO_MAX_OUTPUT_TOKENS", 100_000)
STUDIO_MAX_COST_USD = env.amount("STUDIO_MAX_COST_USD", 5.0)
STUDIO_MAX_REPEATED_CALLS = env.limit("STUDIO_MAX_REPEATED_CALLS", 3)
STUDIO_TIMEOUT_S = env.seconds("STUDIO_TIMEOUT_S", 600)
STUDIO_FIRST_TOKEN_TIMEOUT_S = env.seconds("STUDIO_FIRST_TOKEN_TIMEOUT_S", 120)
STUDIO_IDLE_TIMEOUT_S = env.seconds("STUDIO_IDLE_TIMEOUT_S", 120)
STUDIO_TOOL_TIMEOUT_S = env.seconds("STUDIO_TOOL_TIMEOUT_S", 60)
STUDIO_POLL_S = env.seconds("STUDIO_POLL_S", 0.5)
STUDIO_LEASE_S = env.seconds("STUDIO_LEASE_S", 15)
STUDIO_ON_DISCONNECT = env.choice("STUDIO_ON_DISCONNECT", ("continue", "abort"))
STUDIO_DISCONNECT_GRACE_S = env.seconds("STUDIO_DISCONNECT_GRACE_S", 30)
STUDIO_SHUTDOWN_GRACE_S = env.seconds("STUDIO_SHUTDOWN_GRACE_S", 10)
STUDIO_TRANSCRIPT_DIR = Path(env.text("STUDIO_TRANSCRIPT_DIR", str(VAR_DIR / "transcripts")))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "studio.logs.LineFormatter", "format": "{asctime} {levelname} {name}: {message}", "style": "{"}
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "stream": sys.stderr}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "kernel": {"level": "INFO"},
        "chat": {"level": "INFO"},
        "studio": {"level": "INFO"},
        "LiteLLM": {"level": "CRITICAL"},
        # The MCP client, which quotes what it cannot read; kernel.mcp says what matters.
        "mcp": {"level": "CRITICAL"},
        "client": {"level": "CRITICAL"},
        "channels_redis": {"level": "CRITICAL"},  # a traceback a second while Redis is away; kernel.bus says it once
        "django.request": {"level": "ERROR"},
    },
}
