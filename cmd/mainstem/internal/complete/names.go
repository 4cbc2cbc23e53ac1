package complete

import (
	"context"
	"errors"
	"iter"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/kafkatopic"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/claims"
	"github.com/mainstemdev/mainstem/kv"
	"github.com/mainstemdev/mainstem/lease"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
	"github.com/mainstemdev/mainstem/wire/kafka/eventtopic"
)

// quiet is the logger of a completion: a shell has no place for warnings.
var quiet = slog.New(slog.DiscardHandler)

// arguments says which names an argument takes that the usage of a command calls word. The first entry counts whose
// group the command is in.
var arguments = []struct {
	group, word string
	names       lister // nil: a new name
}{
	{"kv index add", "INDEX", nil},
	{"kv index", "INDEX", indexes},
	{"kv", "BUCKET", buckets},
	{"kv", "KEY", keys},
	{"kv", "DATABASE", databases},
	{"event subscription", "NAME", subscriptions},
	{"event", "STREAM", streams},
	{"topic create", "TOPIC", nil},
	{"topic", "TOPIC", topics},
	{"kafka group", "GROUP", groups},
	{"lease list", "BUCKET", buckets},
	{"lease hold", "NAME", leases},
}

func argumentOf(cmd *cobra.Command, word string) lister {
	for _, a := range arguments {
		if a.word == word && below(cmd, a.group) {
			return a.names
		}
	}
	return nil
}

// flags says what a flag takes: names of the log, or values. The first entry counts whose group the command is in.
var flags = []struct {
	group, name string
	names       lister
	values      []string
}{
	{"", "store", stores, nil},
	{"stats", "space", spaces, nil},
	{"lease", "bucket", buckets, nil},
	{"kafka group reset", "topic", topics, nil},
	{"event subscription", "kind", nil, []string{"checkpoint", "projection", "saga", "claims"}},
	{"event", "expect", nil, []string{"any", "none", "exists"}},
	{"kafka group list", "state", nil, []string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling"}},
	{"topic consume", "from", nil, []string{"start", "end"}},
	{"alerts import", "on-error", nil, []string{"skip", "stop"}},
	{"alerts sql", "format", nil, []string{"auto", "table", "tabs", "vertical"}},
	{"alerts import", "format", nil, []string{"auto", "jsonl", "csv"}},
	{"kv import", "format", nil, []string{"auto", "jsonl", "csv"}},
	{"event import", "format", nil, []string{"auto", "jsonl", "csv"}},
	{"topic produce", "compression", nil, []string{"none", "gzip", "snappy", "lz4", "zstd"}},
	{"serve", "durability", nil, []string{"fsync", "os", "interval=1s"}},
	{"serve", "log-format", nil, []string{"text", "json"}},
	{"serve", "log-level", nil, []string{"debug", "info", "warn", "error"}},
}

// each adds the name of everything that seq yields.
func each[T any](r *request, seq iter.Seq2[T, error], name func(T) string) error {
	for v, err := range seq {
		if err == nil {
			err = r.add(name(v))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// same is the name of a name.
func same(name string) string { return name }

// buckets adds DATABASE/TABLE, and of the database "default" TABLE alone.
func buckets(ctx context.Context, r *request) error {
	for t, err := range kv.Tables(ctx, r.log, "") {
		if err == nil && t.Database == kv.DefaultDatabase {
			err = r.add(t.Name)
		}
		if err == nil && (t.Database != kv.DefaultDatabase || r.typed != "") {
			err = r.add(t.Database + "/" + t.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func databases(ctx context.Context, r *request) error {
	return each(r, kv.Tables(ctx, r.log, ""), func(t kv.Table) string { return t.Database })
}

func keys(ctx context.Context, r *request) error {
	b, err := kv.Open[[]byte](r.log, r.args[0], nil)
	if err != nil {
		return err
	}
	q := &kv.Query{Prefix: r.typed, KeysOnly: true, Limit: maxNames}
	return each(r, b.List(ctx, q), func(e kv.Entry[[]byte]) string { return e.Key })
}

func indexes(ctx context.Context, r *request) error {
	b, err := kv.Open[[]byte](r.log, r.args[0], nil)
	if err != nil {
		return err
	}
	all, err := kv.Indexes(ctx, r.log, b.Database(), b.Table())
	for _, i := range all {
		err = errors.Join(err, r.add(i.Name))
	}
	return err
}

func stores(ctx context.Context, r *request) error { return each(r, event.Stores(ctx, r.log), same) }

func streams(ctx context.Context, r *request) error {
	s, err := event.Open(r.log, r.flag("store"), nil)
	if err != nil {
		return err
	}
	o := &event.ListOptions{Prefix: r.typed, Limit: maxNames, Archived: true}
	return each(r, s.Streams(ctx, o), func(e event.StreamEntry) string { return e.Stream })
}

func subscriptions(ctx context.Context, r *request) error {
	s, err := event.Open(r.log, r.flag("store"), nil)
	if err != nil {
		return err
	}
	if err := each(r, s.Checkpoints(ctx), func(c event.Checkpoint) string { return c.Name }); err != nil {
		return err
	}
	return each(r, claims.Names(ctx, s), same)
}

func topics(ctx context.Context, r *request) error {
	c, err := topic.Open(r.log, &topic.Options{Every: -1, Logger: quiet})
	if err != nil {
		return err
	}
	err = each(r, c.All(ctx), func(t *topic.Topic) string { return t.Name() })
	return errors.Join(err, c.Close())
}

func groups(ctx context.Context, r *request) error {
	c, err := topic.Open(r.log, &topic.Options{Every: -1, Logger: quiet})
	if err != nil {
		return err
	}
	events := eventtopic.Open(r.log, &eventtopic.Options{Logger: quiet})
	alerts := kafkatopic.Open(r.log, &kafkatopic.Options{Logger: quiet})
	all, err := kafka.NewGroups(c, events, alerts).All(ctx)
	for i := range all {
		err = errors.Join(err, r.add(all[i].Name))
	}
	return errors.Join(err, alerts.Close(), events.Close(), c.Close())
}

func leases(ctx context.Context, r *request) error {
	_, held, err := lease.Read(ctx, r.log, r.flag("bucket"))
	for _, h := range held {
		err = errors.Join(err, r.add(h.Key))
	}
	return err
}

func spaces(ctx context.Context, r *request) error {
	return each(r, r.log.Spaces(ctx, r.typed), func(s mainstem.SpaceInfo) string { return s.Name })
}
