package actor

import "testing"

// counted is a question that is open, or closed, and counts how often a sweep looks at it.
type counted struct {
	closed bool
	looks  *int
}

func (c counted) answerAny(uint64, any, error) error { return nil }
func (c counted) waits(uint64) bool                  { *c.looks++; return !c.closed }

// The cost of sweeping is proportional to the number of questions that are published, also for a
// table that keeps its size.
func TestQuestionsAreSweptSeldom(t *testing.T) {
	n, err := Open("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	const size, published = 4 * firstSweep, 1000
	looks := 0
	n.questions.open = make(map[uint64]openQuestion)
	for id := range uint64(size) {
		n.questions.open[id+1] = openQuestion{q: counted{closed: id%2 == 0, looks: &looks}}
	}
	q := &question[int]{node: n}
	for range published {
		a := q.publish(0, "other")
		n.questions.forget(a.ID)
	}
	if len(n.questions.open) != size/2 || looks != size {
		t.Errorf("%d questions are left after %d looks: want the %d open ones after one sweep", len(n.questions.open), looks, size/2)
	}
}
