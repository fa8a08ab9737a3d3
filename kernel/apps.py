from django.apps import AppConfig


class KernelConfig(AppConfig):
    name = "kernel"
    verbose_name = "Kernel"

    def ready(self) -> None:
        from kernel import checks  # noqa: F401  importing it registers them
