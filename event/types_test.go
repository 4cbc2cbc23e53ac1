package event_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

type (
	placed struct {
		Item  string
		Cents int
	}
	paid    struct{ By string }
	shipped struct{ To []byte }
)

// newTypes has placed at schema version 3, and the others at 1.
func newTypes(t testing.TB, o *event.TypesOptions) *event.Types {
	t.Helper()
	types := event.NewTypes(o)
	err := errors.Join(
		event.Register[placed](types, "OrderPlaced", event.Schema(3)),
		event.Register[paid](types, "OrderPaid"),
		event.Register[shipped](types, "OrderShipped", event.WithCodec(codec.Gob, codec.JSON)),
	)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// stored is ev as the store returns it.
func stored(t testing.TB, ev event.Event) event.Recorded {
	t.Helper()
	s := open(t, testengines.Memory(t), nil)
	if _, err := s.Append(t.Context(), "order-1", event.NoStream, []event.Event{ev}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load(t.Context(), "order-1", nil)
	if err != nil || len(got) != 1 {
		t.Fatalf("loaded %d events, %v", len(got), err)
	}
	return got[0]
}

func TestTypesRoundTrip(t *testing.T) {
	types := newTypes(t, nil)
	for _, v := range []any{placed{"book", 995}, paid{}, shipped{[]byte{0, 1}}} {
		ev, err := types.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := types.Decode(stored(t, ev))
		if err != nil || !cmp.Equal(got, v) {
			t.Errorf("%#v came back as %#v, %v", v, got, err)
		}
	}
	ev, err := types.Encode(&placed{"pen", 1})
	if err != nil || ev.Type != "OrderPlaced" || ev.ContentType != "application/json" || ev.Metadata.Custom[event.SchemaName] != "3" {
		t.Errorf("a pointer became %+v, %v", ev, err)
	}
	if ev, _ := types.Encode(shipped{}); ev.ContentType != "application/x-gob" || ev.Metadata.Custom != nil {
		t.Errorf("schema version 1 and gob became %+v", ev)
	}
	old := event.Event{Type: "OrderShipped", Data: []byte(`{"To":"AAE="}`), ContentType: "application/json"}
	if got, err := types.Decode(stored(t, old)); err != nil || !cmp.Equal(got, shipped{[]byte{0, 1}}) {
		t.Errorf("an event of the older codec is %#v, %v", got, err)
	}
	if names := strings.Join(types.Names(), " "); names != "OrderPaid OrderPlaced OrderShipped" {
		t.Errorf("the names are %s", names)
	}
	if a, b := types.NameOf(&paid{}), types.NameOf(7); a != "OrderPaid" || b != "" {
		t.Errorf("the names of a pointer and of an int are %q and %q", a, b)
	}
}

func TestTypesRefuse(t *testing.T) {
	types := newTypes(t, nil)
	var nothing *placed
	_, unregistered := types.Encode(7)
	_, null := types.Encode(nothing)
	_, empty := types.Encode(nil)
	one := func(data []byte, _ event.Metadata) ([]byte, error) { return data, nil }
	if err := types.Upcast("OrderPlaced", 1, one); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"name twice":              event.Register[int](types, "OrderPaid"),
		"type twice":              event.Register[paid](types, "OrderSettled"),
		"no name":                 event.Register[int](types, ""),
		"reserved name":           event.Register[int](types, "$int"),
		"interface":               event.Register[fmt.Stringer](types, "Stringer"),
		"schema 0":                event.Register[int](types, "Int", event.Schema(0)),
		"schema too high":         event.Register[int](types, "Int", event.Schema(event.MaxSchema+1)),
		"nil codec":               event.Register[int](types, "Int", event.WithCodec(nil)),
		"value of no type":        unregistered,
		"nil pointer":             null,
		"nil":                     empty,
		"upcaster twice":          types.Upcast("OrderPlaced", 1, one),
		"upcaster from schema 0":  types.Upcast("OrderPlaced", 0, one),
		"upcaster from the end":   types.Upcast("OrderPlaced", 3, one),
		"upcaster without a type": types.Upcast("", 1, one),
		"nil upcaster":            types.Upcast("OrderPlaced", 2, nil),
		"nil typed upcaster":      event.UpcastFunc[int, int](types, "OrderPlaced", 2, nil),
		"nil splitter":            types.UpcastMany("OrderPlaced", 2, nil),
	} {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
	if err := types.Upcast("Later", 2, one); err != nil {
		t.Fatal(err)
	}
	if err := event.Register[int](types, "Later", event.Schema(2)); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a type below its upcaster: %v, want Invalid", err)
	}
}

type placed1 struct{ Item string }

func TestUpcast(t *testing.T) {
	types := newTypes(t, nil)
	if err := types.Check(); err == nil || !strings.Contains(err.Error(), "from schema version 1 to 2") {
		t.Errorf("the check of types without upcasters says %v", err)
	}
	first := event.Event{Type: "OrderPlaced", Data: []byte(`{"Item":"book"}`)}
	var gap *event.SchemaGapError
	if _, err := types.Decode(stored(t, first)); !errors.As(err, &gap) || gap.Missing != 1 || gap.Expected != 3 || !errors.Is(err, mainstem.ErrUnsupported) {
		t.Errorf("without an upcaster: %v", err)
	}
	err := errors.Join(
		event.UpcastFunc(types, "OrderPlaced", 1, func(old placed1) (placed, error) { return placed{old.Item, 100}, nil }),
		types.Upcast("OrderPlaced", 2, func(data []byte, m event.Metadata) ([]byte, error) {
			return bytes.Replace(data, []byte("book"), []byte(m.TenantID+"'s book"), 1), nil
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := types.Check(); err != nil {
		t.Error(err)
	}
	first.Metadata = event.Metadata{TenantID: "acme", Custom: map[string]string{"k": "v"}}
	r := stored(t, first)
	err = types.Each(r, func(v any, got event.Recorded) error {
		if v != (placed{"acme's book", 100}) || got.Metadata.Custom[event.SchemaName] != "3" || got.Metadata.Custom["k"] != "v" || got.Version != 1 {
			t.Errorf("it became %#v in %+v", v, got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if _, stamped := r.Metadata.Custom[event.SchemaName]; stamped {
		t.Error("the caller's metadata were changed")
	}
	second := event.Event{Type: "OrderPlaced", Data: []byte(`{"Item":"pen","Cents":5}`), Metadata: event.Metadata{Custom: map[string]string{event.SchemaName: "2"}}}
	if v, err := types.Decode(stored(t, second)); err != nil || v != (placed{"pen", 5}) {
		t.Errorf("schema version 2 became %#v, %v", v, err)
	}
	second.Metadata.Custom[event.SchemaName] = "4"
	var future *event.SchemaFutureError
	if _, err := types.Decode(stored(t, second)); !errors.As(err, &future) || future.Schema != 4 || future.Known != 3 {
		t.Errorf("schema version 4: %v", err)
	}
	for _, bad := range []string{"", "0", "-1", "x", "1e3", "99999999999999999999"} {
		second.Metadata.Custom[event.SchemaName] = bad
		if _, err := types.Decode(stored(t, second)); !errors.Is(err, mainstem.ErrCorrupt) {
			t.Errorf("schema version %q: %v, want Corrupt", bad, err)
		}
	}
	second.Metadata.Custom[event.SchemaName], second.Data = "3", []byte(`{"Item":7}`)
	if _, err := types.Decode(stored(t, second)); !errors.Is(err, mainstem.ErrCorrupt) {
		t.Errorf("data that the codec refuses: %v, want Corrupt", err)
	}
}

var errUpcast = errors.New("no upcast")

func TestUpcastMany(t *testing.T) {
	types := newTypes(t, nil)
	id := event.NewID()
	err := errors.Join(
		types.UpcastMany("OrderPlaced", 1, func(r event.Recorded) ([]event.Event, error) {
			return []event.Event{
				{Data: []byte(`{"Item":"a"}`)}, // the same type, schema version 2
				{Type: "OrderPaid", ID: id, Data: []byte(`{"By":"ann"}`), Metadata: event.Metadata{UserID: "ann"}},
			}, nil
		}),
		types.Upcast("OrderPlaced", 2, func([]byte, event.Metadata) ([]byte, error) { return []byte(`{"Item":"b"}`), nil }),
		types.UpcastMany("Settled", 1, func(r event.Recorded) ([]event.Event, error) { // a type that was renamed
			return []event.Event{{Type: "OrderPaid", Data: r.Data}}, nil
		}),
		types.UpcastMany("Noise", 1, func(event.Recorded) ([]event.Event, error) { return nil, nil }),
		types.UpcastMany("Ping", 1, func(event.Recorded) ([]event.Event, error) { return []event.Event{{Type: "Pong"}}, nil }),
		types.UpcastMany("Pong", 1, func(event.Recorded) ([]event.Event, error) { return []event.Event{{Type: "Ping"}}, nil }),
		types.UpcastMany("Fails", 1, func(event.Recorded) ([]event.Event, error) { return nil, errUpcast }),
	)
	if err != nil {
		t.Fatal(err)
	}
	r := stored(t, event.Event{Type: "OrderPlaced", Metadata: event.Metadata{TenantID: "acme"}})
	var got []any
	err = types.Each(r, func(v any, part event.Recorded) error {
		got = append(got, v)
		if part.Stream != r.Stream || part.Version != 1 || part.Position != r.Position || part.Metadata.TenantID != "acme" {
			t.Errorf("%#v is of %+v", v, part)
		}
		if v == (paid{"ann"}) && (part.ID != id || part.Metadata.UserID != "ann") || v != (paid{"ann"}) && part.ID != r.ID {
			t.Errorf("%#v has ID %s and user %q", v, part.ID, part.Metadata.UserID)
		}
		return nil
	})
	if want := []any{placed{"b", 0}, paid{"ann"}}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("it became %#v, %v; want %#v", got, err, want)
	}
	if _, err := types.Decode(r); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("Decode of what becomes two: %v, want Invalid", err)
	}
	if v, err := types.Decode(stored(t, event.Event{Type: "Settled", Data: []byte(`{"By":"bob"}`)})); err != nil || v != (paid{"bob"}) {
		t.Errorf("a renamed type became %#v, %v", v, err)
	}
	if v, err := types.Decode(stored(t, event.Event{Type: "Noise"})); err != nil || v != nil {
		t.Errorf("a dropped event became %#v, %v", v, err)
	}
	if _, err := types.Decode(stored(t, event.Event{Type: "Ping"})); err == nil || !strings.Contains(err.Error(), "circle") {
		t.Errorf("types that become each other: %v", err)
	}
	if _, err := types.Decode(stored(t, event.Event{Type: "Fails"})); !errors.Is(err, errUpcast) {
		t.Errorf("an upcaster that fails: %v", err)
	}
	stop := errors.New("stop")
	calls := 0
	if err := types.Each(r, func(any, event.Recorded) error { calls++; return stop }); !errors.Is(err, stop) || calls != 1 {
		t.Errorf("Each went on %d times after an error: %v", calls, err)
	}
}

func TestUnknownTypes(t *testing.T) {
	strange := stored(t, event.Event{Type: "Strange"})
	var unknown *event.UnknownTypeError
	if _, err := newTypes(t, nil).Decode(strange); !errors.As(err, &unknown) || unknown.Type != "Strange" || unknown.Version != 1 || unknown.Stream != "order-1" {
		t.Errorf("an unknown type: %v", err)
	}
	var lines bytes.Buffer
	types := newTypes(t, &event.TypesOptions{Lenient: true, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	for range 3 {
		if v, err := types.Decode(strange); v != nil || err != nil {
			t.Errorf("a lenient Types makes %#v, %v of it", v, err)
		}
	}
	if err := types.EachStrict(strange, func(any, event.Recorded) error { return nil }); !errors.As(err, &unknown) {
		t.Errorf("EachStrict: %v", err)
	}
	if n := strings.Count(lines.String(), "\n"); n != 1 || types.Skipped()["Strange"] != 3 {
		t.Errorf("%d lines and %v: want one line and 3 skipped\n%s", n, types.Skipped(), &lines)
	}
	for i := range 2000 { // what is remembered is bounded
		r := strange
		r.Type = fmt.Sprint("Strange", i)
		if _, err := types.Decode(r); err != nil {
			t.Fatal(err)
		}
	}
	if n, rest := len(types.Skipped()), types.Skipped()[""]; n != 1001 || rest != 1001 {
		t.Errorf("%d names and %d without one: want 1001 and 1001", n, rest)
	}
}

func TestMetadataOfContext(t *testing.T) {
	ctx := event.WithMetadata(t.Context(), event.Metadata{TenantID: "acme", UserID: "ann", Custom: map[string]string{"a": "1", "b": "1"}})
	inner := event.WithMetadata(ctx, event.Metadata{UserID: "bob", CorrelationID: "c", Custom: map[string]string{"b": "2"}})
	want := event.Metadata{TenantID: "acme", UserID: "bob", CorrelationID: "c", Custom: map[string]string{"a": "1", "b": "2"}}
	if got := event.MetadataFrom(inner); !cmp.Equal(got, want) {
		t.Errorf("the inner context has %+v", got)
	}
	if got := event.MetadataFrom(ctx); got.UserID != "ann" || got.Custom["b"] != "1" {
		t.Errorf("the outer context has %+v", got)
	}
	if got := event.MetadataFrom(t.Context()); !cmp.Equal(got, event.Metadata{}) {
		t.Errorf("a context without has %+v", got)
	}
}
