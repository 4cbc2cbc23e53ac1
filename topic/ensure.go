package topic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// Ensure returns the topic called name, and creates it with s if there is none. A program calls it
// at each start. Several processes may call it at the same time: one of them creates the topic, all
// return it.
//
// A topic that exists is not changed, and must be as s asks: as many partitions, unless
// s.Partitions is 0, and for each configuration in s.Config the same value, set or by default, in
// any notation. Other configurations may have any value. If something differs, Ensure fails with
// Exists, and the error names each setting, its value and the one asked for. As in
// [Catalog.Create], Invalid means a name, a number of partitions or a configuration that no topic
// may have.
func (c *Catalog) Ensure(ctx context.Context, name string, s Spec) (*Topic, error) {
	if err := c.Validate(name, s); err != nil {
		return nil, err
	}
	for {
		t, err := c.Topic(ctx, name)
		if err == nil {
			return t.as(s)
		}
		if !errors.Is(err, mainstem.ErrNotFound) {
			return nil, err
		}
		t, err = c.Create(ctx, name, s)
		if !errors.Is(err, mainstem.ErrExists) {
			return t, err
		}
		// Another process was faster. If it deletes the topic before Topic looks, go on.
	}
}

// as returns the topic if it is as s asks, else an Exists error.
func (t *Topic) as(s Spec) (*Topic, error) {
	g := t.now()
	var differ []string
	if have := int32(len(g.parts)); s.Partitions != 0 && s.Partitions != have {
		hint := "AddPartitions gives it more"
		if s.Partitions < have {
			hint = "partitions cannot be taken away"
		}
		differ = append(differ, fmt.Sprintf("it has %d partitions, %d were asked for (%s)", have, s.Partitions, hint))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Config)) {
		if !g.config.means(key, s.Config[key]) {
			differ = append(differ, fmt.Sprintf("%s is %q, %q was asked for (SetConfig changes it)", key, g.config.Get(key), s.Config[key]))
		}
	}
	if len(differ) == 0 {
		return t, nil
	}
	return nil, t.fail(mainstem.KindExists, "ensure topic",
		fmt.Errorf("the topic exists with other settings: %s: change the topic, ask for what it has, or leave the setting out to take it as it is", strings.Join(differ, "; ")))
}

// means reports whether the configuration key has the given value already, set or by default,
// perhaps in another notation.
func (c Config) means(key, value string) bool {
	if c.Get(key) == value {
		return true
	}
	i := findConfig(key)
	if i < 0 || configKeys[i].Inert { // there is no parsed value to compare
		return false
	}
	before, err := c.parse()
	if err != nil {
		return false
	}
	set := maps.Clone(c)
	if set == nil {
		set = Config{}
	}
	set[key] = value
	after, err := set.parse()
	return err == nil && before == after
}
