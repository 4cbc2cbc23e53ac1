package testengines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachGivesEveryEngineAnEmptyLog(t *testing.T) {
	var names []string
	Each(t, func(t *testing.T, log mainstem.Log) {
		names = append(names, t.Name()[strings.LastIndex(t.Name(), "/")+1:])
		if p, err := log.Head(t.Context()); p != 0 || err != nil {
			t.Errorf("the head of a new log is %d, %v", p, err)
		}
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", []byte("k"), nil)
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Error(err)
		}
	})
	if got := strings.Join(names, " "); got != "memory model directory remote" {
		t.Errorf("the body ran on %q", got)
	}
}

func TestMemoryIsTheEmbeddedEngine(t *testing.T) {
	if log, ok := Memory(t).(*pebblelog.Log); !ok {
		t.Errorf("got %T", log)
	}
}

func TestRoundsAreFewerWhereCommitsAreSlow(t *testing.T) {
	for n, want := range map[int]int{400: 40, 15: 1, 1: 1} {
		if got := Rounds((*pglog.Log)(nil), n); got != testkit.Rounds(want) {
			t.Errorf("%d of %d on PostgreSQL, want %d", got, n, want)
		}
		if got := Rounds(model.New(nil), n); got != testkit.Rounds(n) {
			t.Errorf("%d of %d on the model", got, n)
		}
	}
}

func TestOnly(t *testing.T) {
	var ran int
	Each(t, func(_ *testing.T, log mainstem.Log) {
		ran++
		if _, ok := log.(*model.Log); !ok {
			t.Errorf("ran on %T", log)
		}
	}, Only("model"))
	if ran != 1 {
		t.Errorf("the body ran %d times, want once", ran)
	}
}

func TestUnknownNamesAreMistakes(t *testing.T) {
	for want, o := range map[string]Option{"modell": Only("model", "modell"), "disk": Skip("disk", "for no reason")} {
		s := settings{skip: map[string]string{}}
		o(&s)
		if got := s.unknown(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	s := settings{skip: map[string]string{}}
	Skip("directory", "slow")(&s)
	if got := s.unknown(); got != "" || s.skip["directory"] != "slow" {
		t.Errorf("got %q and %v for a known name", got, s.skip)
	}
}

// failures is a testing.TB that only counts.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Helper() {}
func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

// sick is a log that finds a problem in itself and cannot be closed.
type sick struct{ mainstem.Log }

func (s sick) Check(_ context.Context, report func(mainstem.Problem)) (mainstem.CheckStats, error) {
	report(mainstem.Problem{Where: "space s", What: "lost a record"})
	return mainstem.CheckStats{}, errors.New("gave up")
}

func (s sick) Close() error { return errors.New("jammed") }

func TestFinishReportsWhatIsWrong(t *testing.T) {
	f := &failures{}
	finish(f, sick{model.New(nil)})
	if got := strings.Join(f.texts, "; "); !strings.Contains(got, "space s: lost a record") || !strings.Contains(got, "gave up") || !strings.Contains(got, "jammed") {
		t.Errorf("reported %q", got)
	}
	f = &failures{}
	log := model.New(nil)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if finish(f, log); len(f.texts) != 0 {
		t.Errorf("a log closed by its test: %q", f.texts)
	}
}
