"""Every address of the product, in one place; the socket's is in studio.asgi."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import path, re_path
from django.views.i18n import JavaScriptCatalog, set_language

from studio.export import export_session
from studio.health import healthz, readyz
from studio.login_link import login_by_link
from studio.login_throttle import ThrottledLoginForm
from studio.views import runs_page, studio_page

urlpatterns = [
    path("", studio_page, name="studio"),
    re_path(r"^s/(?P<session_key>[A-Za-z0-9_-]{1,64})/$", studio_page, name="session"),
    re_path(
        r"^s/(?P<session_key>[A-Za-z0-9_-]{1,64})/export\.(?P<extension>md|json)$",
        export_session,
        name="export_session",
    ),
    path("runs/", runs_page, name="runs"),
    path(
        "accounts/login/",
        auth_views.LoginView.as_view(
            template_name="studio/login.html",
            redirect_authenticated_user=True,
            authentication_form=ThrottledLoginForm,
        ),
        name="login",
    ),
    path("accounts/logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("login/<uidb64>/<token>/", login_by_link, name="login_by_link"),
    path("i18n/setlang/", set_language, name="set_language"),
    path("jsi18n/", JavaScriptCatalog.as_view(packages=["studio"]), name="javascript-catalog"),
    path("admin/", admin.site.urls),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
]
