import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('kernel', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AgentRole',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('instructions', models.TextField(blank=True)),
                ('model', models.CharField(blank=True, help_text="Empty: the session's model.", max_length=255)),
                ('tools', models.JSONField(blank=True, help_text='A list of tool names. Empty: every tool.', null=True)),
                ('max_steps', models.PositiveIntegerField(blank=True, help_text='Empty: STUDIO_MAX_STEPS.', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='ChatSession',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=64, unique=True)),
                ('title', models.CharField(blank=True, max_length=200)),
                ('model', models.CharField(blank=True, max_length=255)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('agent_role', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='chat.agentrole')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chat_sessions', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='ChatMessage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('user', 'User'), ('assistant', 'Assistant')], max_length=16)),
                ('text', models.TextField(blank=True)),
                ('parts', models.JSONField(blank=True, default=list)),
                ('client_message_id', models.CharField(blank=True, max_length=128)),
                ('context', models.JSONField(blank=True, null=True)),
                ('interrupted_previous', models.BooleanField(default=False)),
                ('queued_as', models.BigIntegerField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('continues', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='continued_by', to='chat.chatmessage')),
                ('execution', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='messages', to='kernel.executionrecord')),
                ('replaces', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='replaced_by', to='chat.chatmessage')),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='chat.chatsession')),
            ],
        ),
        migrations.CreateModel(
            name='QueuedMessage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.IntegerField()),
                ('text', models.TextField()),
                ('client_message_id', models.CharField(blank=True, max_length=128)),
                ('request_id', models.CharField(blank=True, max_length=128)),
                ('model', models.CharField(blank=True, max_length=255)),
                ('context', models.JSONField(blank=True, null=True)),
                ('interrupted', models.BooleanField(default=False)),
                ('promoted', models.BooleanField(default=False)),
                ('editing_until', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('agent_role', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='chat.agentrole')),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='queue', to='chat.chatsession')),
            ],
        ),
        migrations.AddIndex(
            model_name='chatsession',
            index=models.Index(fields=['user', '-updated_at', '-id'], name='sessions_of_user'),
        ),
        migrations.AddIndex(
            model_name='chatmessage',
            index=models.Index(fields=['session', '-id'], name='messages_of_session'),
        ),
        migrations.AddConstraint(
            model_name='chatmessage',
            constraint=models.UniqueConstraint(condition=models.Q(('client_message_id', ''), _negated=True), fields=('session', 'client_message_id'), name='a_message_is_sent_once'),
        ),
        migrations.AddIndex(
            model_name='queuedmessage',
            index=models.Index(fields=['session', 'position', 'id'], name='queue_of_session'),
        ),
        migrations.AddConstraint(
            model_name='queuedmessage',
            constraint=models.UniqueConstraint(condition=models.Q(('client_message_id', ''), _negated=True), fields=('session', 'client_message_id'), name='a_message_is_queued_once'),
        ),
    ]
