package lease_test

import (
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/lease"
)

// Read returns members and leases without being a member.
func TestReadShowsMembersAndLeases(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		const bucket = "test/locks"
		read := func(members, leases int) ([]lease.Present, []lease.Held) {
			t.Helper()
			m, l, err := lease.Read(t.Context(), log, bucket)
			if err != nil || len(m) != members || len(l) != leases {
				t.Fatalf("members %+v, leases %+v, %v; want %d and %d", m, l, err, members, leases)
			}
			return m, l
		}
		read(0, 0)
		k, err := lease.Open(t.Context(), log, lease.Member{Name: "a", Start: 7, Address: "here"}, &lease.Options{Bucket: bucket, TTL: lease.MaxTTL})
		if err != nil {
			t.Fatal(err)
		}
		l, err := k.Acquire(t.Context(), "printer", "third floor")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Acquire(t.Context(), "lift", ""); err != nil {
			t.Fatal(err)
		}
		m, held := read(1, 2)
		if m[0].Member != k.Self() || m[0].TTL != lease.MaxTTL || m[0].Renewed.IsZero() {
			t.Errorf("member %+v", m[0])
		}
		if want := (lease.Held{Key: "printer", Node: "a", Value: "third floor", Epoch: l.Epoch(), Session: l.Session()}); held[1] != want || held[0].Key != "lift" {
			t.Errorf("leases %+v", held)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		read(1, 1)
		if err := k.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		read(0, 0)
		if _, _, err := lease.Read(t.Context(), log, "no spaces"); err == nil {
			t.Error("a bad name is taken")
		}
	})
}

func TestDefaultTTL(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		k, err := lease.Open(t.Context(), log, lease.Member{Name: "a"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer leave(t, k)
		m, _, err := lease.Read(t.Context(), log, "")
		if err != nil || len(m) != 1 || m[0].TTL != lease.DefaultTTL {
			t.Errorf("members %+v, %v", m, err)
		}
	})
}
