import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Worker',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('host', models.CharField(max_length=255)),
                ('pid', models.PositiveIntegerField()),
                ('channel', models.CharField(blank=True, max_length=255)),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('heartbeat_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('lease_until', models.DateTimeField(db_index=True)),
                ('draining', models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name='Hold',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('scope_model', models.CharField(blank=True, max_length=255)),
                ('reason', models.TextField(blank=True)),
                ('by', models.CharField(blank=True, max_length=150)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('released_at', models.DateTimeField(blank=True, db_index=True, null=True)),
                ('released_by', models.CharField(blank=True, max_length=150)),
                ('scope_user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='holds', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='ExecutionRecord',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('turn', 'Turn'), ('title', 'Title'), ('drill', 'Drill')], default='turn', max_length=16)),
                ('session_key', models.CharField(blank=True, max_length=64)),
                ('model', models.CharField(blank=True, max_length=255)),
                ('request_id', models.CharField(blank=True, max_length=128)),
                ('status', models.CharField(choices=[('running', 'Running'), ('completed', 'Completed'), ('error', 'Error'), ('aborted', 'Aborted')], default='running', max_length=16)),
                ('intent', models.CharField(blank=True, choices=[('session_stop', 'session_stop'), ('panic_stop', 'panic_stop'), ('timeout', 'timeout'), ('user_interrupt', 'user_interrupt'), ('disconnect', 'disconnect'), ('shutdown', 'shutdown'), ('worker_lost', 'worker_lost'), ('deleted', 'deleted')], max_length=32)),
                ('requested_by', models.CharField(blank=True, max_length=150)),
                ('source', models.CharField(blank=True, max_length=32)),
                ('why', models.TextField(blank=True)),
                ('requested_at', models.DateTimeField(blank=True, null=True)),
                ('abort_reason', models.CharField(blank=True, choices=[('session_stop', 'session_stop'), ('panic_stop', 'panic_stop'), ('timeout', 'timeout'), ('user_interrupt', 'user_interrupt'), ('disconnect', 'disconnect'), ('shutdown', 'shutdown'), ('worker_lost', 'worker_lost'), ('deleted', 'deleted')], max_length=32)),
                ('timeout_kind', models.CharField(blank=True, choices=[('total', 'total'), ('first_token', 'first_token'), ('idle', 'idle')], max_length=16)),
                ('error', models.TextField(blank=True)),
                ('finish_reason', models.CharField(blank=True, max_length=64)),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), db_index=True)),
                ('first_output_ms', models.FloatField(blank=True, null=True)),
                ('upstream_closed_ms', models.FloatField(blank=True, null=True)),
                ('settled_ms', models.FloatField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('duration_ms', models.FloatField(blank=True, null=True)),
                ('steps', models.PositiveIntegerField(default=0)),
                ('input_tokens', models.PositiveIntegerField(default=0)),
                ('output_tokens', models.PositiveIntegerField(default=0)),
                ('cost_usd', models.FloatField(blank=True, null=True)),
                ('estimated', models.BooleanField(default=False)),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='executions', to=settings.AUTH_USER_MODEL)),
                ('worker', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='executions', to='kernel.worker')),
            ],
            options={
                'permissions': [('stop_any_execution', "Can stop another person's execution"), ('panic', 'Can stop everything, hold and release')],
                'indexes': [models.Index(fields=['session_key', 'status'], name='execution_of_session'), models.Index(condition=models.Q(('status', 'running')), fields=['worker'], name='running_of_worker')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('kind', 'turn'), ('status', 'running')), fields=('session_key',), name='one_running_turn_per_session'), models.CheckConstraint(condition=models.Q(('status', 'aborted'), ('abort_reason', ''), _connector='XOR'), name='abort_reason_iff_aborted'), models.CheckConstraint(condition=models.Q(models.Q(('finished_at', None), ('status', 'running')), models.Q(models.Q(('status', 'running'), _negated=True), ('finished_at__isnull', False)), _connector='OR'), name='finished_at_iff_terminal')],
            },
        ),
    ]
