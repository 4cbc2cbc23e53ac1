package gomicro_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/contrib/natskv/gomicro"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testnats.IgnoreLibrary()) }

// The types of go-micro's package store, as far as the interface needs them.
type (
	Options struct {
		Nodes           []string
		Database, Table string
		Context         context.Context
		Client          any
	}
	ReadOptions struct {
		Context         context.Context
		Database, Table string
		Prefix, Suffix  bool
		Limit, Offset   uint
	}
	WriteOptions struct {
		Database, Table string
		Expiry          time.Time
		TTL             time.Duration
	}
	DeleteOptions struct{ Database, Table string }
	ListOptions   struct {
		Database, Table string
		Prefix, Suffix  string
		Limit, Offset   uint
	}
	Option       func(*Options)
	ReadOption   func(*ReadOptions)
	WriteOption  func(*WriteOptions)
	DeleteOption func(*DeleteOptions)
	ListOption   func(*ListOptions)
	Record       struct {
		Metadata map[string]any `json:"metadata"`
		Key      string         `json:"key"`
		Value    []byte         `json:"value"`
		Expiry   time.Duration  `json:"expiry,omitempty"`
	}
	Store interface {
		Init(...Option) error
		Options() Options
		Read(key string, opts ...ReadOption) ([]*Record, error)
		Write(r *Record, opts ...WriteOption) error
		Delete(key string, opts ...DeleteOption) error
		List(...ListOption) ([]string, error)
		Close() error
		String() string
	}
)

type adapter = gomicro.Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions,
	Option, ReadOption, WriteOption, DeleteOption, ListOption]

var _ Store = (*adapter)(nil)

var errNotFound = errors.New("not found")

func open(t testing.TB, url string, l natskv.Layout, c gomicro.Config) Store {
	t.Helper()
	return openWith(t, url, &natskv.Options{Layout: l}, c)
}

func openWith(t testing.TB, url string, o *natskv.Options, c gomicro.Config) Store {
	t.Helper()
	o.Timeout = testkit.Patience
	s, err := natskv.OpenStore(t.Context(), connect(t, url), o)
	if err != nil {
		t.Fatal(err)
	}
	c.NotFound = errNotFound
	a, err := gomicro.New[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions,
		Option, ReadOption, WriteOption, DeleteOption, ListOption](t.Context(), s, &c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	return testnats.Connect(t, url)
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keys(records []*Record) []string {
	out := []string{}
	for _, r := range records {
		out = append(out, r.Key+"="+string(r.Value))
	}
	return out
}

func TestStore(t *testing.T) {
	for _, encoded := range []bool{false, true} {
		t.Run(fmt.Sprint("encoded=", encoded), func(t *testing.T) {
			srv := testnats.NewServer(t, nil)
			s := open(t, srv.URL(), natskv.GoMicro(encoded), gomicro.Config{})
			noError(t, s.Init(func(o *Options) { o.Table = "users" }))
			if s.Options().Table != "users" || s.String() != "NATS JetStream KeyValueStore" {
				t.Errorf("options %+v, name %s", s.Options(), s)
			}
			_, err := s.Read("a")
			if err != errNotFound { // callers compare
				t.Errorf("read of what is not there: %v", err)
			}
			if list, err := s.List(); err != nil || len(list) != 0 {
				t.Errorf("list of a bucket that is not there: %q, %v", list, err)
			}
			for i := range 5 {
				noError(t, s.Write(&Record{Key: fmt.Sprint("k", i), Value: []byte{byte('0' + i)}, Metadata: map[string]any{"n": float64(i), "s": "x"}}))
			}
			noError(t, s.Write(&Record{Key: "other", Value: []byte("o")}, func(o *WriteOptions) { o.Table = "groups" }))
			got, err := s.Read("k2")
			noError(t, err)
			if len(got) != 1 || string(got[0].Value) != "2" || got[0].Metadata["n"] != 2.0 || got[0].Metadata["s"] != "x" || got[0].Expiry != 0 {
				t.Errorf("read %+v", got[0])
			}
			page, err := s.Read("k", func(o *ReadOptions) { o.Prefix, o.Offset, o.Limit = true, 1, 2 })
			noError(t, err)
			if !slices.Equal(keys(page), []string{"k1=1", "k2=2"}) {
				t.Errorf("page %q", keys(page))
			}
			noError(t, s.Delete("k1"))
			noError(t, s.Delete("never"))
			list, err := s.List(func(o *ListOptions) { o.Prefix, o.Offset, o.Limit = "k", 1, 100 })
			noError(t, err)
			if !slices.Equal(list, []string{"k2", "k3", "k4"}) {
				t.Errorf("list %q", list)
			}
			fresh := open(t, srv.URL(), natskv.GoMicro(encoded), gomicro.Config{}) // knows no bucket yet
			all, err := fresh.List()
			noError(t, err)
			if want := []string{"groups_other", "users_k0", "users_k2", "users_k3", "users_k4"}; !slices.Equal(all, want) {
				t.Errorf("all keys of the bucket: %q; want %q", all, want)
			}
			noError(t, s.Delete("default", func(o *DeleteOptions) { o.Table = "DELETE_BUCKET" }))
			if list, err := s.List(); err != nil || len(list) != 0 {
				t.Errorf("list of a deleted bucket: %q, %v", list, err)
			}
		})
	}
}

// What is stored is byte for byte what go-micro's plug-in stores.
func TestGoldenBytes(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	s := open(t, srv.URL(), natskv.GoMicro(true), gomicro.Config{Table: "prefix_test"})
	noError(t, s.Write(&Record{Key: "Two", Value: []byte("<2>"), Metadata: map[string]any{"b": "<x>", "a": 1}}))
	noError(t, s.Write(&Record{Key: "One"}))
	js := testnats.JetStream(t, connect(t, srv.URL()))
	stream, err := js.Stream(t.Context(), "KV_default")
	noError(t, err)
	for subject, want := range map[string]string{
		"$KV.default.OBZGKZTJPBPXIZLTORPVI53P": `{"key":"Two","data":"PDI+","metadata":{"a":1,"b":"\u003cx\u003e"}}`,
		"$KV.default.OBZGKZTJPBPXIZLTORPU63TF": `{"key":"One","data":null,"metadata":null}`,
	} {
		m, err := stream.GetLastMsgForSubject(t.Context(), subject)
		noError(t, err)
		if string(m.Data) != want {
			t.Errorf("%s is %s; want %s", subject, m.Data, want)
		}
	}
}

func TestExpiry(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	s := open(t, srv.URL(), natskv.Shared(false), gomicro.Config{})
	noError(t, s.Write(&Record{Key: "lives", Value: []byte("1"), Expiry: time.Hour}))
	got, err := s.Read("lives")
	noError(t, err)
	if e := got[0].Expiry; e <= 59*time.Minute || e > 61*time.Minute { // the clock of the server is an estimate
		t.Errorf("expires in %v; want an hour", e)
	}
	noError(t, s.Write(&Record{Key: "lives", Value: []byte("2")}, func(o *WriteOptions) { o.Expiry = time.Now().Add(-time.Second) }))
	if _, err := s.Read("lives"); err != errNotFound {
		t.Errorf("a record that was written expired: %v", err)
	}
	ignoring := open(t, srv.URL(), natskv.Shared(false), gomicro.Config{IgnoreExpiry: true})
	noError(t, ignoring.Write(&Record{Key: "stays", Expiry: time.Hour}))
	got, err = ignoring.Read("stays")
	noError(t, err)
	if got[0].Expiry != 0 {
		t.Errorf("expires in %v; want never", got[0].Expiry)
	}
}

// What is left of a record is by the clock of the servers, whatever that of the service shows.
func TestExpiryIsByTheClockOfTheServers(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	behind := shifted(t, srv.URL(), "behind", -time.Hour, -time.Hour)
	s := openWith(t, srv.URL(), &natskv.Options{Layout: natskv.Shared(false), APIPrefix: behind}, gomicro.Config{})
	noError(t, s.Write(&Record{Key: "k", Value: []byte("1"), Expiry: 30 * time.Minute}))
	got, err := s.Read("k")
	noError(t, err)
	if e := got[0].Expiry; e <= 29*time.Minute || e > 31*time.Minute {
		t.Errorf("expires in %v; want half an hour", e)
	}
	noError(t, s.Write(got[0]))
	if _, err := s.Read("k"); err != nil {
		t.Errorf("a record that was written as it was read: %v", err)
	}
	// The clock of the servers may be ahead of the estimate of it.
	estimate := shifted(t, srv.URL(), "estimate", -time.Hour, 0)
	s = openWith(t, srv.URL(), &natskv.Options{Layout: natskv.Shared(false), APIPrefix: estimate}, gomicro.Config{})
	got, err = s.Read("k")
	noError(t, err)
	if e := got[0].Expiry; e > 31*time.Minute {
		t.Errorf("expires in %v; want no more than it had when it was written", e)
	}
	// A server may still have what has expired by its clock.
	late := shifted(t, srv.URL(), "late", 0, -time.Hour)
	s = openWith(t, srv.URL(), &natskv.Options{Layout: natskv.Shared(false), APIPrefix: late}, gomicro.Config{})
	got, err = s.Read("k")
	noError(t, err)
	if got[0].Expiry != 1 {
		t.Errorf("expires in %v; want the least there is", got[0].Expiry)
	}
}

// shifted returns a prefix of the API under which the server's clock, and the times of its
// messages, are off by so much.
func shifted(t testing.TB, url, name string, clock, messages time.Duration) string {
	t.Helper()
	nc := connect(t, url)
	_, err := nc.Subscribe(name+".>", func(m *nats.Msg) {
		subject := strings.TrimPrefix(m.Subject, name+".")
		if !strings.HasPrefix(subject, "$KV.") {
			subject = "$JS.API." + subject
		}
		answer, err := nc.RequestMsg(&nats.Msg{Subject: subject, Header: m.Header, Data: m.Data}, testnats.Patience)
		if err == nil {
			shift(answer, clock, messages)
			err = m.RespondMsg(&nats.Msg{Header: answer.Header, Data: answer.Data})
		}
		if err != nil {
			t.Errorf("%s: %v", m.Subject, err)
		}
	})
	noError(t, err)
	noError(t, nc.Flush())
	return name
}

// shift moves the times in an answer of the API.
func shift(m *nats.Msg, clock, messages time.Duration) {
	const header, field = "Nats-Time-Stamp", "ts"
	if at, err := time.Parse(time.RFC3339Nano, m.Header.Get(header)); err == nil {
		m.Header.Set(header, at.Add(messages).Format(time.RFC3339Nano))
	}
	var fields map[string]json.RawMessage
	var at time.Time
	if json.Unmarshal(m.Data, &fields) == nil && json.Unmarshal(fields[field], &at) == nil {
		fields[field], _ = json.Marshal(at.Add(clock))
		m.Data, _ = json.Marshal(fields)
	}
}

func TestBucketsAreMadeAsConfigured(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	js := testnats.JetStream(t, connect(t, srv.URL()))
	for bucket, c := range map[string]gomicro.Config{
		"plain":  {},
		"chosen": {Memory: true, Description: "sessions", Replicas: 1},
	} {
		c.Database = bucket
		noError(t, open(t, srv.URL(), natskv.GoMicro(true), c).Write(&Record{Key: "k"}))
		stream, err := js.Stream(t.Context(), "KV_"+bucket)
		noError(t, err)
		want := jetstream.StreamConfig{Description: gomicro.DefaultDescription, Storage: jetstream.FileStorage, Replicas: 1}
		if c.Memory {
			want.Description, want.Storage = "sessions", jetstream.MemoryStorage
		}
		got := stream.CachedInfo().Config
		if got.Description != want.Description || got.Storage != want.Storage || got.Replicas != want.Replicas {
			t.Errorf("%s: %q, %s, %d replicas; want %q, %s, %d", bucket, got.Description, got.Storage, got.Replicas, want.Description, want.Storage, want.Replicas)
		}
	}
	// One server cannot hold two copies: the number reaches it.
	if err := open(t, srv.URL(), natskv.GoMicro(true), gomicro.Config{Database: "two", Replicas: 2}).Write(&Record{Key: "k"}); err == nil {
		t.Error("one server took a bucket of two replicas")
	}
}

func TestTypesThatDoNotFit(t *testing.T) {
	type wrong struct{ Nothing int }
	_, err := gomicro.New[wrong, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions,
		Option, ReadOption, WriteOption, DeleteOption, ListOption](t.Context(), nil, nil)
	if !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a record without fields: %v", err)
	}
}
