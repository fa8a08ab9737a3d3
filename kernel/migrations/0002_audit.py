import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('kernel', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), db_index=True)),
                ('verb', models.CharField(choices=[('stop', 'Stop'), ('panic', 'Panic'), ('release', 'Release')], max_length=16)),
                ('by', models.CharField(blank=True, max_length=150)),
                ('source', models.CharField(blank=True, max_length=32)),
                ('target', models.TextField()),
                ('reason', models.TextField(blank=True)),
                ('abort_reason', models.CharField(blank=True, max_length=32)),
                ('executions', models.PositiveIntegerField(default=0)),
                ('refused', models.BooleanField(default=False)),
            ],
            options={
                'verbose_name_plural': 'audit entries',
            },
        ),
        migrations.CreateModel(
            name='AbortedRun',
            fields=[
            ],
            options={
                'proxy': True,
                'indexes': [],
                'constraints': [],
            },
            bases=('kernel.executionrecord',),
        ),
    ]
