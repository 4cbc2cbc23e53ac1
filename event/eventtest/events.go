package eventtest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// List is a list of events to be checked. Its methods return it, so that checks can be chained.
type List struct {
	t      testing.TB
	events []any
}

// Events returns a list of events, which are Go values, oldest first.
func Events(t testing.TB, events ...any) *List { return &List{t, events} }

// Equal checks that the events are exactly these, in this order.
func (l *List) Equal(want ...any) *List {
	l.t.Helper()
	if len(l.events) != len(want) {
		l.t.Errorf("%d events happened, want %d\n\tgot  %s\n\twant %s", len(l.events), len(want), shown(l.events), shown(want))
		return l
	}
	for i := range want {
		l.same(i, want[i])
	}
	return l
}

// same checks the event at index i, which exists.
func (l *List) same(i int, want any) {
	l.t.Helper()
	if d := diff(l.events[i], want); d != "" {
		l.t.Errorf("event %d is a %s, and not the %s that is wanted\n%s", i+1, goType(l.events[i]), goType(want), d)
	}
}

// Types checks the Go types of all events, named without their packages: "OrderPlaced".
func (l *List) Types(want ...string) *List {
	l.t.Helper()
	got := make([]string, len(l.events))
	for i, ev := range l.events {
		got[i] = goType(ev)
	}
	if g, w := strings.Join(got, ", "), strings.Join(want, ", "); g != w {
		l.t.Errorf("the events are of types %s; want %s", g, w)
	}
	return l
}

// Count checks the number of events.
func (l *List) Count(want int) *List {
	l.t.Helper()
	if len(l.events) != want {
		l.t.Errorf("%d events happened, want %d\n\tgot %s", len(l.events), want, shown(l.events))
	}
	return l
}

// First checks the first event.
func (l *List) First(want any) *List { l.t.Helper(); return l.At(0, want) }

// Last checks the last event.
func (l *List) Last(want any) *List { l.t.Helper(); return l.At(len(l.events)-1, want) }

// At checks the event at index i, from 0.
func (l *List) At(i int, want any) *List {
	l.t.Helper()
	if i < 0 || i >= len(l.events) {
		l.t.Errorf("there is no event %d: %d events happened", i+1, len(l.events))
		return l
	}
	l.same(i, want)
	return l
}

// Contains checks that at least one of the events equals want.
func (l *List) Contains(want any) *List {
	l.t.Helper()
	for _, ev := range l.events {
		if reflect.DeepEqual(ev, want) {
			return l
		}
	}
	l.t.Errorf("no event is %s\n\tgot %s", shown([]any{want}), shown(l.events))
	return l
}

// goType returns the name of the type of v, or of the type that it points to.
func goType(v any) string {
	t := reflect.TypeOf(v)
	if t == nil {
		return "nil"
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// shown formats events on one line.
func shown(events []any) string {
	if len(events) == 0 {
		return "none"
	}
	parts := make([]string, len(events))
	for i, ev := range events {
		parts[i] = fmt.Sprintf("%s%+v", goType(ev), ev)
	}
	return strings.Join(parts, ", ")
}
