package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A group has one timer for all its deadlines.
//
//   - arm sets it to the earliest deadline, soon to a deadline that may be earlier.
//   - A deadline that moves to a later time, as with every heartbeat, does not move the timer. The
//     timer fires too early, tick finds nothing due, and arm sets it again. So a heartbeat does not
//     touch the timer.
//   - A group without deadlines has no running timer.

// deadlines yields the deadlines of the group; zero times are none.
func (g *group) deadlines(yield func(time.Time)) {
	for _, m := range g.members {
		if !m.waiting() {
			yield(m.deadline)
		}
		yield(m.giveUpBy)
	}
	for _, t := range g.pending {
		yield(t)
	}
	if g.kind == classic && g.state == preparing {
		yield(g.joinBy)
		yield(g.notBefore)
	}
	yield(g.syncBy)
}

// waiting reports whether a JoinGroup or SyncGroup of the member waits. Its session does not end
// meanwhile: a client does not send heartbeats while it waits.
func (m *member) waiting() bool { return m.join != nil || m.sync != nil }

// arm sets the timer to the earliest deadline.
func (g *group) arm() {
	g.wakeAt = time.Time{}
	g.deadlines(func(t time.Time) {
		if !t.IsZero() && (g.wakeAt.IsZero() || t.Before(g.wakeAt)) {
			g.wakeAt = t
		}
	})
	g.set()
}

// soon makes sure that the timer fires at t at the latest.
func (g *group) soon(t time.Time) {
	if g.wakeAt.IsZero() || t.Before(g.wakeAt) {
		g.wakeAt = t
		g.set()
	}
}

// set sets the timer to wakeAt.
func (g *group) set() {
	switch {
	case g.gone:
	case g.wakeAt.IsZero():
		if g.timer != nil {
			g.timer.Stop()
		}
	case g.timer == nil:
		g.timer = time.AfterFunc(g.wakeAt.Sub(g.c.now()), g.tick)
	default:
		g.timer.Reset(g.wakeAt.Sub(g.c.now()))
	}
}

// tick runs in a goroutine of the timer. After an error the group has been discarded.
func (g *group) tick() {
	if !g.c.enter() {
		return
	}
	defer g.c.wg.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return
	}
	if err := g.due(g.c.now()); err != nil {
		g.c.code("timer", g.name, err)
		return
	}
	if g.exists() {
		g.arm()
	} else {
		g.discard()
	}
}

// due handles the deadlines that have passed: it drops pending IDs, removes members that are late,
// and continues the rebalance of a classic group. It saves the changes.
func (g *group) due(now time.Time) error {
	for id, t := range g.pending {
		if !t.After(now) {
			delete(g.pending, id)
		}
	}
	late := false
	for _, m := range g.inOrder() {
		if g.late(m, now) {
			g.c.o.Logger.Info("a group's member is removed: it was silent for too long", "group", g.name, "member", m.id)
			g.strike(m, kerr.UnknownMemberID.Code)
			late = true
		}
	}
	if g.kind == consumer {
		if late {
			g.shrunk()
		}
		return g.save()
	}
	return g.dueClassic(now, late)
}

// late reports whether a member has to be removed: its session has ended, or in a consumer group it
// was asked to give up partitions or to join again and the rebalance timeout has passed.
func (g *group) late(m *member, now time.Time) bool {
	if !m.giveUpBy.IsZero() && !m.giveUpBy.After(now) {
		return true
	}
	return !m.waiting() && !m.deadline.After(now)
}
