"""Django's settings, composed from the state folder and the environment."""

import os
from pathlib import Path
from typing import Any

from optimize_site.kernel.conf import home, setting
from optimize_site.services import database_settings, make_folder, redis_url, secret_key

BASE_DIR = Path(__file__).resolve().parent.parent
STATE = home()

SECRET_KEY = secret_key(STATE)
DEBUG = False
ALLOWED_HOSTS = [*setting("web.allowed-hosts")]
CSRF_TRUSTED_ORIGINS = [*setting("web.trusted-origins")]
RING_DOORBELLS = os.environ.get("OPTIMIZE_RING_DOORBELLS", "1") == "1"

INSTALLED_APPS = [
    "optimize_site.kernel",
    "registry",
    "datasets",
    "runs",
    "evaluations",
    "endpoints",
    "gpu_worker",
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "template_partials",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "optimize_site.kernel.problems.ApiProblems",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "optimize_site.kernel.middleware.SignedInOnly",
    "optimize_site.kernel.middleware.ContentSecurityPolicy",
    "optimize_site.kernel.refusals.RefusalPages",
]
ROOT_URLCONF = "optimize_site.urls"
ASGI_APPLICATION = "optimize_site.asgi.application"
WSGI_APPLICATION = "optimize_site.wsgi.application"
DOORBELL_APPLICATION = "optimize_site.celery.app"
API = "optimize_site.api.api"
AUTH_USER_MODEL = "kernel.User"
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "optimize_site.kernel.middleware.box_context",
            ],
        },
    },
]

DATABASES = {"default": database_settings(STATE)}
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = make_folder(STATE / "static")
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": STATE / "files"}},
    "blobs": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": STATE / "blobs"}},
    "staticfiles": {"BACKEND": os.environ.get("OPTIMIZE_STATIC_STORAGE",
                                              "whitenoise.storage.CompressedManifestStaticFilesStorage")},
}
FILE_UPLOAD_HANDLERS = ["optimize_site.kernel.uploads.OnlyExpectedUploads",
                        "django.core.files.uploadhandler.TemporaryFileUploadHandler"]
FILE_UPLOAD_TEMP_DIR = make_folder(STATE / "scratch")
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2000

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if setting("web.behind-tls-proxy"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]

REDIS_URL = redis_url(STATE)
CELERY_BROKER_URL = REDIS_URL
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_connect_timeout": 2, "socket_timeout": 10, "max_retries": 1}
CELERY_TASK_DEFAULT_QUEUE = "control"

ACCENT = {"50": "#eef2fd", "100": "#dde5fb", "200": "#c0cffa", "300": "#92aeff", "400": "#6687ee", "500": "#4468d8",
          "600": "#2a51c4", "700": "#23429f", "800": "#1f387f", "900": "#1b2f66", "950": "#111c3f"}
UNFOLD = {"SITE_TITLE": "Optimize", "SITE_HEADER": "Optimize", "SITE_URL": "/", "COLORS": {"primary": ACCENT}}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "optimize_site.kernel.logs.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("OPTIMIZE_LOG_LEVEL", "INFO")},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "celery.beat": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
    },
}
