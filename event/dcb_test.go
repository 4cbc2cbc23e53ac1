package event_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// The examples of dcb.events, on every engine: decisions that depend on events of several
// entities, without a stream that belongs to all of them.

// eachIndexed is each on a store with an index.
func eachIndexed(t *testing.T, body func(t *testing.T, log mainstem.Log, s *event.Store)) {
	t.Helper()
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		if err := s.CreateIndex(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		body(t, log, s)
	})
}

// tagged returns an event of type typ with tags, whose data is v as JSON.
func tagged(t testing.TB, typ string, v any, tags ...string) event.Event {
	t.Helper()
	ev, err := event.JSON(typ, v)
	if err != nil {
		t.Fatal(err)
	}
	ev.Tags = tags
	return ev
}

func one(stream string, ev event.Event) []event.Append {
	return []event.Append{{Stream: stream, Events: []event.Event{ev}}}
}

// Courses have a capacity, students at most three courses. A subscription is one event about
// both, and depends on the events of both.
type courses struct {
	t testing.TB
	s *event.Store
}

const maxCourses = 3

var (
	errNoCourse   = errors.New("no such course")
	errFull       = errors.New("the course is full")
	errSubscribed = errors.New("subscribed already")
	errTooMany    = errors.New("the student has too many courses")
)

func (c courses) define(course string, capacity int) error {
	_, err := c.s.Decide(c.t.Context(), event.Query{{Types: []string{"CourseDefined"}, Tags: []string{"course:" + course}}},
		func(evs []event.Recorded) ([]event.Append, error) {
			if len(evs) > 0 {
				return nil, errors.New("the course exists")
			}
			return one("course-"+course, tagged(c.t, "CourseDefined", capacity, "course:"+course)), nil
		})
	return err
}

func (c courses) changeCapacity(course string, capacity int) error {
	_, err := c.s.Decide(c.t.Context(), event.Query{{Types: []string{"CourseDefined", "CapacityChanged"}, Tags: []string{"course:" + course}}},
		func(evs []event.Recorded) ([]event.Append, error) {
			if len(evs) == 0 {
				return nil, errNoCourse
			}
			return one("course-"+course, tagged(c.t, "CapacityChanged", capacity, "course:"+course)), nil
		})
	return err
}

func (c courses) subscribe(course, student string) error {
	q := event.Query{
		{Types: []string{"CourseDefined", "CapacityChanged", "StudentSubscribed"}, Tags: []string{"course:" + course}},
		{Types: []string{"StudentSubscribed"}, Tags: []string{"student:" + student}},
	}
	_, err := c.s.Decide(c.t.Context(), q, func(evs []event.Recorded) ([]event.Append, error) {
		capacity, inCourse, ofStudent := -1, 0, 0
		for _, ev := range evs {
			switch {
			case ev.Type != "StudentSubscribed":
				if err := json.Unmarshal(ev.Data, &capacity); err != nil {
					return nil, err
				}
				continue
			case slices.Contains(ev.Tags, "course:"+course) && slices.Contains(ev.Tags, "student:"+student):
				return nil, errSubscribed
			case slices.Contains(ev.Tags, "course:"+course):
				inCourse++
			default:
				ofStudent++
			}
		}
		switch {
		case capacity < 0:
			return nil, errNoCourse
		case inCourse >= capacity:
			return nil, errFull
		case ofStudent >= maxCourses:
			return nil, errTooMany
		}
		return one("subscription-"+course, tagged(c.t, "StudentSubscribed", nil, "course:"+course, "student:"+student)), nil
	})
	return err
}

func TestCourseSubscriptions(t *testing.T) {
	eachIndexed(t, func(t *testing.T, _ mainstem.Log, s *event.Store) {
		c := courses{t, s}
		want := func(err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Fatalf("%v: want %v", err, want)
			}
		}
		want(c.subscribe("c1", "s1"), errNoCourse)
		for i := range 5 {
			want(c.define(fmt.Sprintf("c%d", i+1), 2), nil)
		}
		want(c.subscribe("c1", "s1"), nil)
		want(c.subscribe("c1", "s1"), errSubscribed)
		want(c.subscribe("c1", "s2"), nil)
		want(c.subscribe("c1", "s3"), errFull)
		want(c.changeCapacity("c1", 3), nil)
		want(c.subscribe("c1", "s3"), nil)
		want(c.subscribe("c2", "s1"), nil)
		want(c.subscribe("c3", "s1"), nil)
		want(c.subscribe("c4", "s1"), errTooMany)
		// Many at once: no course over its capacity, no student over the limit.
		var all sync.WaitGroup
		for i := range 24 {
			all.Go(func() {
				err := c.subscribe(fmt.Sprintf("c%d", 4+i%2), fmt.Sprintf("s%d", 10+i/4))
				if err != nil && !errors.Is(err, errFull) && !errors.Is(err, errSubscribed) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, course := range []string{"c4", "c5"} {
			evs := collect(t, s.Query(t.Context(), event.Query{{Types: []string{"StudentSubscribed"}, Tags: []string{"course:" + course}}}, nil))
			wantEqual(t, "students in "+course, len(evs), 2)
		}
	})
}

func TestUniqueUsernames(t *testing.T) {
	eachIndexed(t, func(t *testing.T, _ mainstem.Log, s *event.Store) {
		names := func(name string) event.Query {
			return event.Query{{Types: []string{"AccountRegistered", "NameChanged", "AccountClosed"}, Tags: []string{"username:" + name}}}
		}
		taken := errors.New("the name is taken")
		register := func(account, name string) error {
			_, err := s.Decide(t.Context(), names(name), func(evs []event.Recorded) ([]event.Append, error) {
				if len(evs) > 0 && evs[len(evs)-1].Type != "AccountClosed" {
					return nil, taken
				}
				return one("account-"+account, tagged(t, "AccountRegistered", name, "username:"+name)), nil
			})
			return err
		}
		var all sync.WaitGroup
		won := make(chan string, 8)
		for i := range 8 {
			all.Go(func() {
				switch err := register(strconv.Itoa(i), "ada"); {
				case err == nil:
					won <- strconv.Itoa(i)
				case !errors.Is(err, taken):
					t.Error(err)
				}
			})
		}
		all.Wait()
		wantEqual(t, "accounts called ada", len(won), 1)
		write(t, s, "account-"+<-won, event.StreamExists, []event.Event{tagged(t, "AccountClosed", nil, "username:ada")})
		if err := register("9", "ada"); err != nil {
			t.Fatalf("a name that is free again: %v", err)
		}
		// Without reading first: the name was never used.
		for i, want := range []error{nil, mainstem.ErrConflict} {
			b := mainstem.NewBatch()
			s.FailIf(b, names("grace"), 0)
			s.AppendTo(b, fmt.Sprintf("account-grace%d", i), event.NoStream, []event.Event{tagged(t, "AccountRegistered", "grace", "username:grace")})
			_, err := s.Commit(t.Context(), b)
			if !errors.Is(err, want) {
				t.Fatalf("grace %d: %v: want %v", i, err, want)
			}
			var failed *event.ConditionError
			if want != nil && (!errors.As(err, &failed) || failed.Found == 0 || failed.After != 0 || failed.Store != "orders" || len(failed.Query) != 1) {
				t.Fatalf("%v is %+v", err, failed)
			}
		}
	})
}

func TestInvoiceNumbersWithoutGaps(t *testing.T) {
	eachIndexed(t, func(t *testing.T, _ mainstem.Log, s *event.Store) {
		const writers, each = 4, 5
		invoice := func() error {
			_, err := s.Decide(t.Context(), event.Query{{Types: []string{"InvoiceCreated"}}}, func(evs []event.Recorded) ([]event.Append, error) {
				n := len(evs) + 1
				return one(fmt.Sprintf("invoice-%d", n), tagged(t, "InvoiceCreated", n, fmt.Sprintf("invoice:%d", n))), nil
			})
			return err
		}
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for range each {
					if err := invoice(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		n := 0
		for ev, err := range s.Query(t.Context(), event.Query{{Types: []string{"InvoiceCreated"}}}, nil) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			wantEqual(t, "number", string(ev.Data), strconv.Itoa(n))
			wantEqual(t, "version", ev.Version, 1)
		}
		wantEqual(t, "invoices", n, writers*each)
	})
}

// A token is sent to the address of somebody who wants an account, and is good for one use.
func TestOptInToken(t *testing.T) {
	eachIndexed(t, func(t *testing.T, _ mainstem.Log, s *event.Store) {
		unknown, used := errors.New("unknown token"), errors.New("the token was used")
		confirm := func(token string) error {
			_, err := s.Decide(t.Context(), event.Tagged("token:"+token), func(evs []event.Recorded) ([]event.Append, error) {
				switch {
				case len(evs) == 0:
					return nil, unknown
				case len(evs) > 1:
					return nil, used
				}
				return one(evs[0].Stream, tagged(t, "SignUpConfirmed", nil, "token:"+token)), nil
			})
			return err
		}
		if err := confirm("t1"); !errors.Is(err, unknown) {
			t.Fatal(err)
		}
		write(t, s, "signup-1", event.NoStream, []event.Event{tagged(t, "SignUpInitiated", "ada@example.com", "token:t1")})
		var all sync.WaitGroup
		won := make(chan int, 8)
		for i := range 8 {
			all.Go(func() {
				switch err := confirm("t1"); {
				case err == nil:
					won <- i
				case !errors.Is(err, used):
					t.Error(err)
				}
			})
		}
		all.Wait()
		wantEqual(t, "confirmations", len(won), 1)
		wantEqual(t, "events", len(load(t, s, "signup-1", nil)), 2)
	})
}

// A client gives each request an ID; the second time nothing is written.
func TestIdempotentRequest(t *testing.T) {
	eachIndexed(t, func(t *testing.T, _ mainstem.Log, s *event.Store) {
		place := func(request string) (new bool, err error) {
			r, err := s.Decide(t.Context(), event.Query{{Types: []string{"OrderPlaced"}, Tags: []string{"request:" + request}}},
				func(evs []event.Recorded) ([]event.Append, error) {
					if len(evs) > 0 {
						return nil, nil
					}
					return one("order-1", tagged(t, "OrderPlaced", 17, "request:"+request)), nil
				})
			return r.Last > 0, err
		}
		for i, want := range []bool{true, false, false} {
			got, err := place("r1")
			if err != nil || got != want {
				t.Fatalf("request %d: written %v, %v", i, got, err)
			}
		}
		if got, err := place("r2"); !got || err != nil {
			t.Fatalf("another request: %v, %v", got, err)
		}
		wantEqual(t, "orders", len(load(t, s, "order-1", nil)), 2)
	})
}
