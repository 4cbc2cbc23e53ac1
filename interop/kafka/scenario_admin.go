package kafka

import (
	"fmt"
	"slices"
)

func (e *Env) admin() Admin {
	e.Helper()
	a, err := e.Library.New(Endpoint{Address: e.Address}).Admin(e.ctx)
	e.must(err, "open an admin client")
	return a
}

func adminTopics(e *Env) {
	a := e.admin()
	defer e.closed(a)
	name := e.name("topics")
	e.must(a.CreateTopic(e.ctx, name, 2, map[string]string{"cleanup.policy": "compact"}), "create")
	if err := a.CreateTopic(e.ctx, name, 2, nil); err == nil {
		e.Error("a topic was created twice")
	}
	if err := a.CreateTopic(e.ctx, "no/slash", 1, nil); err == nil {
		e.Error("a topic was created with a name that Kafka forbids")
	}
	if err := a.CreateTopic(e.ctx, name+".bad", 1, map[string]string{"no.such.config": "1"}); err == nil {
		e.Error("a topic was created with an unknown configuration")
	}
	partitions := func(want int) {
		e.Helper()
		e.must(eventually(e.ctx, func() error { // some libraries answer from a cache
			all, err := a.Topics(e.ctx)
			if err == nil && all[name] != want {
				err = fmt.Errorf("%s has %d partitions, want %d", name, all[name], want)
			}
			return err
		}), "list topics")
	}
	partitions(2)
	e.must(a.AddPartitions(e.ctx, name, 5), "add partitions")
	partitions(5)
	if err := a.AddPartitions(e.ctx, name, 3); err == nil {
		e.Error("a topic was made smaller")
	}
	e.must(a.DeleteTopic(e.ctx, name), "delete")
	partitions(0)
}

func adminConfigs(e *Env) {
	a := e.admin()
	defer e.closed(a)
	topic := e.topic("configs", 1)
	show := func(key string) string {
		e.Helper()
		configs, err := a.Configs(e.ctx, topic)
		e.must(err, "describe configs")
		return configs[key]
	}
	if got := show("cleanup.policy"); got != "delete" {
		e.Errorf("cleanup.policy is %q by default, want delete", got)
	}
	e.must(a.SetConfig(e.ctx, topic, "retention.ms", "86400000"), "alter")
	if got := show("retention.ms"); got != "86400000" {
		e.Errorf("retention.ms is %q, want 86400000", got)
	}
	if err := a.SetConfig(e.ctx, topic, "no.such.config", "1"); err == nil {
		e.Error("an unknown configuration was taken")
	}
	if err := a.SetConfig(e.ctx, topic, "retention.ms", "a while"); err == nil {
		e.Error("a value that is no number was taken")
	}
}

func adminRecords(e *Env) {
	a := e.admin()
	defer e.closed(a)
	topic := e.topic("records", 1)
	for range 10 {
		e.Judge.Produce(e.ctx, topic, numbered("v", 10))
	}
	e.must(a.DeleteRecords(e.ctx, topic, 35), "delete records")
	start, end, err := a.Offsets(e.ctx, topic)
	e.must(err, "list offsets")
	if start != 35 || end != 100 {
		e.Errorf("offsets %d to %d, want 35 to 100", start, end)
	}
	if got := e.Judge.ReadAll(e.ctx, topic, false); len(got) != 65 || got[0].Offset != 35 {
		e.Errorf("%d records are left, want 65 from offset 35", len(got))
	}
}

func adminGroups(e *Env) {
	a := e.admin()
	defer e.closed(a)
	o := ConsumerOptions{Topic: e.topic("groups", 1), Group: e.name("groups")}
	e.Judge.Produce(e.ctx, o.Topic, numbered("v", 10))
	c := e.consumer(o)
	e.read(c, 10)
	e.must(c.Commit(e.ctx), "commit")
	groups, err := a.Groups(e.ctx)
	e.must(err, "list groups")
	if !slices.Contains(groups, o.Group) {
		e.Errorf("group %s is not among %v", o.Group, groups)
	}
	state, members, err := a.Group(e.ctx, o.Group)
	if err != nil || state != "Stable" || members != 1 {
		e.Errorf("the group is %q with %d members, %v; want Stable with 1", state, members, err)
	}
	if err := a.DeleteGroup(e.ctx, o.Group); err == nil {
		e.Error("a group with a member was deleted")
	}
	e.closed(c)
	e.Judge.Members(e.ctx, o.Group, 0)
	offsets, err := a.GroupOffsets(e.ctx, o.Group, o.Topic)
	if err != nil || len(offsets) != 1 || offsets[0] != 10 {
		e.Errorf("offsets of the group: %v, %v; want 10 in partition 0", offsets, err)
	}
	e.must(a.DeleteGroup(e.ctx, o.Group), "delete the group")
	if groups, err = a.Groups(e.ctx); err != nil || slices.Contains(groups, o.Group) {
		e.Errorf("after deleting it, group %s is still listed: %v, %v", o.Group, groups, err)
	}
}
