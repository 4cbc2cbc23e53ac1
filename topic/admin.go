package topic

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// Spec says how a new topic is to be.
type Spec struct {
	Partitions int32  // 1 to [MaxPartitions]; 0 means 1
	Config     Config // what differs from the defaults
}

// Create creates a topic. It fails with Exists if there is one of that name, and
// with Invalid for a name, a number of partitions or a configuration that is not
// allowed, or for a name that differs from another topic's only in '.' and '_'.
// Space and description appear in one commit: after a crash there is all of the
// topic or nothing. A program that needs a topic at each start calls [Catalog.Ensure].
func (c *Catalog) Create(ctx context.Context, name string, s Spec) (*Topic, error) {
	if s.Partitions == 0 {
		s.Partitions = 1
	}
	if err := c.validate(name, s.Partitions, s.Config); err != nil {
		return nil, err
	}
	if c.closed() {
		return nil, closed("create topic")
	}
	c.admin.Lock()
	defer c.admin.Unlock()
	if err := c.checkCollision(ctx, name); err != nil {
		return nil, err
	}
	m := meta{ID: newID(), Partitions: s.Partitions, Config: maps.Clone(s.Config), Created: c.o.Now().UTC().Round(0)}
	b := mainstem.NewBatch()
	b.Ensure(Space(name), mainstem.Policy{})
	b.IfAbsent(Space(name), metaKey)
	b.Put(Space(name), metaKey, m.encode())
	b.Put(Space(name), idKey(m.ID), nil)
	_, err := c.log.Commit(ctx, b)
	if errors.Is(err, mainstem.ErrConflict) {
		return nil, mainstem.Refusef(mainstem.KindExists, "create topic", "the topic exists already").At(Space(name), nil)
	}
	if err != nil {
		return nil, err
	}
	return c.Topic(ctx, name)
}

func (c *Catalog) validate(name string, partitions int32, config Config) error {
	if err := ValidateName(name); err != nil {
		return err
	}
	if partitions < 1 || partitions > MaxPartitions {
		return mainstem.Refusef(mainstem.KindInvalid, "topic "+name, "%d partitions: want 1 to %d", partitions, MaxPartitions)
	}
	s, err := config.parse()
	if err != nil {
		return err
	}
	if s.MaxMessage > int64(c.o.MaxMessage) {
		return mainstem.Refusef(mainstem.KindInvalid, "topic config", "%s is %d: the log takes values of at most %d bytes", MaxMessageBytes, s.MaxMessage, c.o.MaxMessage)
	}
	return nil
}

func (c *Catalog) checkCollision(ctx context.Context, name string) error {
	if !strings.ContainsAny(name, "._") {
		return nil
	}
	for info, err := range c.log.Spaces(ctx, SpacePrefix) {
		if err != nil {
			return err
		}
		if other := strings.TrimPrefix(info.Name, SpacePrefix); collides(name, other) {
			return mainstem.Refusef(mainstem.KindInvalid, "create topic", "%q differs from the topic %q only in '.' and '_', which Kafka's metrics cannot tell apart", name, other)
		}
	}
	return nil
}

// Delete removes a topic with everything in it, at once. It fails with NotFound
// if there is none. What waits for the topic wakes up with NotFound.
func (c *Catalog) Delete(ctx context.Context, name string) error {
	c.admin.Lock()
	defer c.admin.Unlock()
	t, err := c.Topic(ctx, name)
	if err != nil {
		return err
	}
	err = c.log.DropSpace(ctx, t.space)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return err
	}
	c.forget(t)
	if err != nil {
		return notFound("delete topic", name)
	}
	// The topic is gone whatever becomes of its index: upkeep removes what is left.
	if err := c.dropIndex(ctx, t.id); err != nil {
		c.o.Logger.Warn("removing the index of a deleted topic", "topic", name, "error", err)
	}
	return nil
}

// Alter changes the configurations of a topic. edit gets those that are set, and
// adds, changes and deletes entries; it may be called again when somebody else
// altered the topic meanwhile, so it should do nothing else. An error from edit
// is returned and nothing changes. The new configurations hold for the next
// append, and for retention and compaction when they next run.
func (c *Catalog) Alter(ctx context.Context, name string, edit func(Config) error) error {
	return c.change(ctx, name, func(m *meta) error {
		if m.Config == nil {
			m.Config = Config{}
		}
		return edit(m.Config)
	})
}

// SetConfig sets one configuration of a topic; the empty value means the default.
func (c *Catalog) SetConfig(ctx context.Context, name, key, value string) error {
	return c.Alter(ctx, name, func(cfg Config) error {
		if cfg[key] = value; value == "" {
			delete(cfg, key)
		}
		return nil
	})
}

// AddPartitions gives a topic more partitions: total is the new number of them.
// It fails with Invalid if that is not more than there are. Keys may then belong
// to other partitions than before.
func (c *Catalog) AddPartitions(ctx context.Context, name string, total int32) error {
	return c.change(ctx, name, func(m *meta) error {
		if total <= m.Partitions {
			return mainstem.Refusef(mainstem.KindInvalid, "add partitions", "topic %s has %d partitions already: want more than that, not %d", name, m.Partitions, total)
		}
		m.Partitions = total
		return nil
	})
}

// change replaces the description of a topic by what edit makes of it.
func (c *Catalog) change(ctx context.Context, name string, edit func(*meta) error) error {
	c.admin.Lock()
	defer c.admin.Unlock()
	for {
		t, err := c.Topic(ctx, name)
		if err != nil {
			return err
		}
		g := t.now()
		m, err := decodeMeta(g.raw)
		if err != nil {
			return err
		}
		if err := edit(&m); err != nil {
			return err
		}
		if err := c.validate(name, m.Partitions, m.Config); err != nil {
			return err
		}
		b := mainstem.NewBatch()
		b.IfExists(t.space, t.idKey)
		b.IfVersion(t.space, metaKey, g.version)
		b.Put(t.space, metaKey, m.encode())
		_, err = c.log.Commit(ctx, b)
		if errors.Is(err, mainstem.ErrConflict) {
			continue // somebody else was first: Topic reads what they made of it
		}
		if err != nil {
			return t.seen(err)
		}
		_, err = c.Topic(ctx, name)
		return err
	}
}

// Description is a topic with what it holds.
type Description struct {
	Name       string
	ID         ID
	Config     Config
	Partitions []PartitionInfo
}

// PartitionInfo is what one partition holds.
type PartitionInfo struct {
	Start int64 // first offset that may be read
	End   int64 // the offset that the next record gets
	Bytes int64 // of the record batches held
}

// Describe returns a topic with what its partitions hold. It may have to read
// what was appended since upkeep last ran.
func (c *Catalog) Describe(ctx context.Context, name string) (Description, error) {
	t, err := c.Topic(ctx, name)
	if err != nil {
		return Description{}, err
	}
	d := Description{Name: name, ID: t.id, Config: t.Config()}
	for _, p := range t.now().parts {
		var in PartitionInfo
		if in.Bytes, err = p.size(ctx); err != nil {
			return Description{}, err
		}
		if in.Start, err = t.Start(ctx, p.num); err != nil {
			return Description{}, err
		}
		if in.End, err = t.End(ctx, p.num); err != nil {
			return Description{}, err
		}
		d.Partitions = append(d.Partitions, in)
	}
	return d, nil
}
