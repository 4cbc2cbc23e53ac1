package group

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

func TestOptions(t *testing.T) {
	for name, o := range map[string]*Options{
		"sessions":  {MinSession: time.Hour},
		"size":      {MaxSize: -1},
		"delay":     {InitialDelay: -1},
		"heartbeat": {Heartbeat: time.Microsecond},
		"session":   {Session: time.Second},
		"topics":    {TopicsEvery: -1},
		"groups":    {MaxGroups: -1},
	} {
		if _, err := Open(model.New(nil), nil, o); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (*Options)(nil).Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

func TestMaxGroups(t *testing.T) {
	w := newWorld(t, Options{MaxGroups: 1})
	w.topics.create("t", 1)
	w.reporter("a", "m", "t").mustBeat(t)
	wantCode(t, "another group", w.reporter("b", "m", "t").beat().ErrorCode, kerr.CoordinatorNotAvailable)
	wantCode(t, "the group that is there", w.reporter("a", "n", "t").beat().ErrorCode, nil)
}

// Requests to groups that do not exist leave nothing in memory.
func TestNothingRemains(t *testing.T) {
	w := newWorld(t, Options{})
	a := w.member("g")
	a.id = "who"
	a.join()
	a.beat()
	a.sync(nil)
	a.leave()
	w.describe("g")
	w.CheckTxnCommit("x", "m", nil, 3)
	w.ConsumerGroupDescribe(ctx, coord.Client{}, &kmsg.ConsumerGroupDescribeRequest{Version: 1, Groups: []string{"g"}})
	if n := len(w.all()); n != 0 {
		t.Errorf("%d groups in memory", n)
	}
	if n := w.log.count(); n != 0 {
		t.Errorf("%d commits", n)
	}
}

// Requests to a damaged group get an error; other groups work.
func TestDamage(t *testing.T) {
	for what, damage := range map[string]func(*mainstem.Batch){
		"group":      func(b *mainstem.Batch) { b.Put(partition.GroupSpace, groupKey("g"), []byte{9}) },
		"member":     func(b *mainstem.Batch) { b.Put(partition.GroupSpace, memberKey("g", "a"), []byte{1, 0}) },
		"member key": func(b *mainstem.Batch) { b.Put(partition.GroupSpace, append(memberKey("g", "a"), 0), nil) },
		"expression": func(b *mainstem.Batch) {
			b.Put(partition.GroupSpace, memberKey("g", "b"), (&identity{consumer: true, regex: "("}).encode())
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, Options{})
			w.topics.create("t", 1)
			a := w.reporter("g", "a", "t").mustBeat(t)
			other := w.reporter("other", "a", "t").mustBeat(t)
			w.Coordinator.Close()
			b := mainstem.NewBatch()
			damage(b)
			if _, err := w.log.Commit(ctx, b); err != nil {
				t.Fatal(err)
			}
			w.open()
			wantCode(t, "heartbeat", a.beat().ErrorCode, kerr.UnknownServerError)
			other.mustBeat(t)
		})
	}
}

// A group is loaded again after the commit of its timer has failed.
func TestTimerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		together(t, a, b)
		w.log.set(errBroken, false)
		time.Sleep(testSession + 100*time.Millisecond)
		synctest.Wait()
		if n := len(w.all()); n != 0 {
			t.Fatalf("%d groups in memory", n)
		}
		w.log.set(nil, false)
		time.Sleep(2*testSession + 2*testRebalance)
		synctest.Wait()
		if s := w.state("g"); s != "Empty" {
			t.Errorf("state %s", s)
		}
	})
}

// TestLookUpFails checks that a consumer group is loaded again after its topics could not be read
// while a member joined, so that the sessions of silent members end; and that the end of the
// client's connection does not interrupt the look-up.
func TestLookUpFails(t *testing.T) {
	for name, join := range map[string]func(context.Context, *world) int16{
		"ConsumerGroupHeartbeat": func(ctx context.Context, w *world) int16 {
			return w.ConsumerGroupHeartbeat(ctx, coord.Client{}, w.reporter("g", "b", "t").request()).ErrorCode
		},
		"JoinGroup": func(ctx context.Context, w *world) int16 {
			m := w.speaker("g", "t")
			m.version, m.protocol["range"] = 3, m.subscription()
			return w.JoinGroup(ctx, coord.Client{}, m.joinRequest()).ErrorCode
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			w.topics.create("t", 2)
			w.reporter("g", "a", "t").mustBeat(t)
			ended, end := context.WithCancel(ctx)
			end()
			wantCode(t, name+" of a client that has disconnected", join(ended, w), nil)
			if n := w.members("g"); n != 2 {
				t.Errorf("%s: the group has %d members, want 2", name, n)
			}
			w.topics.fail(errBroken)
			w.TopicsChanged()
			wantCode(t, name, join(ctx, w), kerr.CoordinatorNotAvailable)
			w.topics.fail(nil)
			time.Sleep(reloadAfter)
			synctest.Wait()
			if n := w.members("g"); n != 2 {
				t.Errorf("%s: the group has %d members in memory, want 2", name, n)
			}
			time.Sleep(DefaultSession + time.Second)
			synctest.Wait()
			if s := w.state("g"); s != "Empty" || w.members("g") != 0 {
				t.Errorf("%s: state %s with %d members", name, s, w.members("g"))
			}
		})
	}
}

// members returns the number of members of a group in memory.
func (w *world) members(group string) int {
	w.t.Helper()
	groups, err := w.Groups(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, in := range groups {
		if in.Name == group {
			n += in.Members
		}
	}
	return n
}
