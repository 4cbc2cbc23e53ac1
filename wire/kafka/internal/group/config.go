package group

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Config is the configuration of one consumer group (KIP-848), instead of the settings of the
// coordinator. Zero fields mean those of the coordinator. A group need not exist to be configured,
// and its configuration stays when it is deleted, as in Kafka.
type Config struct {
	Session   time.Duration // consumer.session.timeout.ms, for [Options].Session
	Heartbeat time.Duration // consumer.heartbeat.interval.ms, for [Options].Heartbeat
}

// The bounds of a [Config], which are Kafka's defaults (group.consumer.min.session.timeout.ms and
// so on). Settings of the coordinator outside of the bounds widen them.
const (
	MinGroupSession   = 45 * time.Second
	MaxGroupSession   = 60 * time.Second
	MinGroupHeartbeat = 5 * time.Second
	MaxGroupHeartbeat = 15 * time.Second
)

// validate returns an Invalid error that names every setting out of bounds, or nil.
func (cfg Config) validate(o *Options) error {
	var errs []error
	check := func(name string, set, least, most, own time.Duration) {
		if least, most = min(least, own), max(most, own); set != 0 && (set < least || set > most) {
			errs = append(errs, fmt.Errorf("%s is %d: want %d to %d", name, set.Milliseconds(), least.Milliseconds(), most.Milliseconds()))
		}
	}
	check("consumer.session.timeout.ms", cfg.Session, MinGroupSession, MaxGroupSession, o.Session)
	check("consumer.heartbeat.interval.ms", cfg.Heartbeat, MinGroupHeartbeat, MaxGroupHeartbeat, o.Heartbeat)
	if session, beat := cmp.Or(cfg.Session, o.Session), cmp.Or(cfg.Heartbeat, o.Heartbeat); errs == nil && beat >= session {
		errs = append(errs, fmt.Errorf("consumer.heartbeat.interval.ms is %d: want less than consumer.session.timeout.ms, which is %d", beat.Milliseconds(), session.Milliseconds()))
	}
	if errs == nil {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "configure group", Outcome: mainstem.NotWritten, Err: errors.Join(errs...)}
}

// Config returns the configuration of a group, zero if it has none. It fails like
// [Coordinator.Configure].
func (c *Coordinator) Config(ctx context.Context, group string) (Config, error) {
	var cfg Config
	err := c.Configure(ctx, group, true, func(now Config) (Config, error) {
		cfg = now
		return now, nil
	})
	return cfg, err
}

// Configure replaces the configuration of a group by the result of edit, and commits it. Members
// get the new heartbeat interval in the answer to their next heartbeat; the new session timeout
// applies from then on. With validateOnly it checks the configuration and changes nothing. It fails
// with the error of edit, with Invalid for the name of a group or a value out of bounds, with
// Closed after Close, and with the errors of the log. It calls edit once, with the group locked:
// edit must not call the coordinator.
func (c *Coordinator) Configure(ctx context.Context, group string, validateOnly bool, edit func(Config) (Config, error)) error {
	if !c.enter() {
		return errClosed
	}
	defer c.wg.Done()
	if err := partition.ValidateGroup(group); err != nil {
		return err
	}
	g, err := c.acquire(ctx, group, true)
	if err != nil {
		return err
	}
	defer g.letGo()
	cfg, err := edit(g.config)
	if err != nil || cfg == g.config {
		return err
	}
	if err := cfg.validate(&c.o); err != nil || validateOnly {
		return err
	}
	b := mainstem.NewBatch()
	b.Durability = c.o.Durability
	partition.EnsureGroupSpace(b)
	if cfg == (Config{}) {
		b.Delete(partition.GroupSpace, configKey(group))
	} else {
		b.Put(partition.GroupSpace, configKey(group), cfg.encode())
	}
	if _, err := c.log.Commit(ctx, b); err != nil {
		g.lose() // the outcome may be unknown
		return err
	}
	g.config = cfg
	return nil
}

// Configured returns the sorted names of the groups that have a configuration of their own.
func (c *Coordinator) Configured(ctx context.Context) ([]string, error) {
	var names []string
	for rec, err := range c.log.Scan(ctx, partition.GroupSpace, mainstem.Range{Prefix: []byte{configKind}, KeysOnly: true}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		name, _, err := keyText(rec.Key[1:])
		if err != nil {
			return nil, mainstem.Errorf(mainstem.KindCorrupt, "load group", "%w", err).At(partition.GroupSpace, slices.Clone(rec.Key))
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// loadConfig reads the configuration of the group.
func (g *group) loadConfig(ctx context.Context) error {
	rec, err := g.c.log.Get(ctx, partition.GroupSpace, configKey(g.name))
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if g.config, err = decodeConfig(rec.Value); err != nil {
		return mainstem.Errorf(mainstem.KindCorrupt, "load group", "%w", err).At(partition.GroupSpace, rec.Key)
	}
	return nil
}

// encode returns the stored form of a configuration.
//
//	1 byte: format
//	uvarint: session, heartbeat, in milliseconds, 0 for none
func (cfg Config) encode() []byte {
	b := binary.AppendUvarint([]byte{storedFormat}, uint64(cfg.Session.Milliseconds()))
	return binary.AppendUvarint(b, uint64(cfg.Heartbeat.Milliseconds()))
}

func decodeConfig(b []byte) (Config, error) {
	r := reader{b: b}
	r.format()
	cfg := Config{r.timeout(), r.timeout()}
	return cfg, r.end("a group's configuration")
}
