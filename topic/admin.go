package topic

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// Spec describes a new topic.
type Spec struct {
	Partitions int32  // 1 to [MaxPartitions]; 0 means 1
	Config     Config // configurations to set; the others have their defaults
}

// Create creates a topic with one commit, so that after a crash either all of it exists or nothing.
// It returns after the commit, at the log's durability. If it fails after the commit, as when the
// catalog is closed meanwhile, the error does not have the outcome NotWritten.
//
// It fails with Exists if there is a topic of that name. It fails with Invalid for a name, a number
// of partitions or a configuration that is not allowed, and for a name that differs from another
// topic's only in '.' and '_'. The last rule does not hold if two catalogs create such topics at
// the same moment. A program that needs a topic at each start calls [Catalog.Ensure].
func (c *Catalog) Create(ctx context.Context, name string, s Spec) (*Topic, error) {
	if err := c.Validate(name, s); err != nil {
		return nil, err
	}
	if s.Partitions == 0 {
		s.Partitions = 1
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
	t, err := c.Topic(ctx, name)
	return t, committed(err)
}

// committed returns err without the outcome NotWritten. It is the error of a read that follows a
// successful commit.
func committed(err error) error {
	var e *mainstem.Error
	if errors.As(err, &e) && e.Outcome == mainstem.NotWritten {
		return e.WithOutcome(mainstem.NoOutcome)
	}
	return err
}

// Validate returns an Invalid error for a name, a number of partitions or configurations that no
// topic of the log may have. Create, Ensure and Alter refuse the same. It does not look at the
// topics that there are.
func (c *Catalog) Validate(name string, spec Spec) error {
	if err := ValidateName(name); err != nil {
		return err
	}
	if spec.Partitions < 0 || spec.Partitions > MaxPartitions {
		return mainstem.Refusef(mainstem.KindInvalid, "topic "+name, "%d partitions: want 1 to %d", spec.Partitions, MaxPartitions)
	}
	s, err := spec.Config.parse()
	if err != nil {
		return err
	}
	if s.MaxMessage > int64(c.o.MaxMessage) {
		return mainstem.Refusef(mainstem.KindInvalid, "topic config", "%s is %d: the log takes values of at most %d bytes", MaxMessageBytes, s.MaxMessage, c.o.MaxMessage)
	}
	return nil
}

// checkCollision returns an Invalid error if name differs from that of another topic only in '.'
// and '_'.
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

// Delete removes a topic and all its records in one step. It fails with NotFound if there is none.
// Waiters for the topic wake, and all calls of its handle then fail with NotFound. Offsets that
// consumer groups have stored for it stay, but are not those of a later topic of the name.
func (c *Catalog) Delete(ctx context.Context, name string) error {
	c.admin.Lock()
	defer c.admin.Unlock()
	t, err := c.Topic(ctx, name)
	if err != nil {
		return err
	}
	err = c.log.DropSpace(ctx, t.space)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		c.setSwept(false) // the topic may be deleted all the same
		return err
	}
	c.forget(t)
	if err != nil {
		return notFound("delete topic", name)
	}
	if err := c.dropIndex(ctx, t.id); err != nil {
		c.setSwept(false) // the next upkeep removes the rest
		c.o.Logger.Warn("removing the index of a deleted topic", "topic", name, "error", err)
	}
	return nil
}

// Alter changes the configurations of a topic. edit adds, changes and deletes entries of the Config
// that it is given, which has those that are set. It is called again if another process has altered
// the topic meanwhile, so it must have no other effect. If it returns an error, Alter returns it
// and changes nothing. NotFound: there is no such topic; Invalid: the result is not allowed.
//
// The new configurations hold from the next append on, and from the next run of retention and
// compaction. Another catalog uses them as soon as it learns of them, see the package comment.
func (c *Catalog) Alter(ctx context.Context, name string, edit func(Config) error) error {
	return c.change(ctx, name, func(m *meta) error {
		if m.Config == nil {
			m.Config = Config{}
		}
		return edit(m.Config)
	})
}

// SetConfig sets one configuration of a topic, as [Catalog.Alter] does. The empty value restores
// the default.
func (c *Catalog) SetConfig(ctx context.Context, name, key, value string) error {
	return c.Alter(ctx, name, func(cfg Config) error {
		if cfg[key] = value; value == "" {
			delete(cfg, key)
		}
		return nil
	})
}

// AddPartitions raises the number of partitions of a topic to total. It fails with Invalid if total
// is not more than there are, or more than [MaxPartitions]. Records of a key that are published
// later may go to another partition than those before.
func (c *Catalog) AddPartitions(ctx context.Context, name string, total int32) error {
	return c.change(ctx, name, func(m *meta) error {
		if total <= m.Partitions {
			return mainstem.Refusef(mainstem.KindInvalid, "add partitions", "topic %s has %d partitions already: want more than that, not %d", name, m.Partitions, total)
		}
		m.Partitions = total
		return nil
	})
}

// change edits the description of a topic and commits it, on condition that the topic exists and
// that the description is still the one that was edited. After a Conflict it begins again.
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
		if err := c.Validate(name, Spec{Partitions: m.Partitions, Config: m.Config}); err != nil {
			return err
		}
		b := mainstem.NewBatch()
		b.IfExists(t.space, t.idKey)
		b.IfVersion(t.space, metaKey, g.version)
		b.Put(t.space, metaKey, m.encode())
		_, err = c.log.Commit(ctx, b)
		if errors.Is(err, mainstem.ErrConflict) {
			continue // another process was first: Topic reads its description
		}
		if err != nil {
			return t.seen(err)
		}
		_, err = c.Topic(ctx, name)
		return committed(err)
	}
}

// Description describes a topic and its partitions.
type Description struct {
	Name       string
	ID         ID
	Config     Config
	Partitions []PartitionInfo
}

// PartitionInfo describes one partition.
type PartitionInfo struct {
	Start int64 // first offset that may be read
	End   int64 // the offset that the next record gets
	Bytes int64 // of the record batches, as stored
}

// Describe describes a topic: NotFound if there is none. For Bytes it reads the batches that were
// appended since upkeep last ran. The numbers of a partition are not read at one moment.
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
