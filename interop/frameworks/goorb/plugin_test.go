// Package goorb_test has the adapter to go-orb and go-orb's own plug-in, or what
// stands for it, work on the same buckets.
package goorb_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-orb/go-orb/config"
	"github.com/go-orb/go-orb/kvstore"
	"github.com/go-orb/go-orb/log"
	"github.com/go-orb/go-orb/util/orberrors"
	_ "github.com/go-orb/plugins/codecs/json" // reads go-orb's configuration
	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/contrib/natskv/goorb"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/interop/frameworks"
)

var (
	noError    = frameworks.NoError
	eventually = testkit.Eventually
)

// adapter is our store with the types of go-orb.
type adapter struct {
	*goorb.KVStore[
		kvstore.Record, kvstore.GetOptions, kvstore.SetOptions, kvstore.KeysOptions,
		kvstore.ReadOptions, kvstore.WriteOptions, kvstore.DeleteOptions, kvstore.ListOptions,
		kvstore.GetOption, kvstore.SetOption, kvstore.KeysOption,
		kvstore.ReadOption, kvstore.WriteOption, kvstore.DeleteOption, kvstore.ListOption,
	]
	*goorb.Watcher[kvstore.WatchEvent, kvstore.WatchOptions, kvstore.WatchOption]
}

var (
	_ kvstore.KVStore = adapter{}
	_ kvstore.Watcher = adapter{}
	_ kvstore.KVStore = (*peer)(nil)
	_ kvstore.Watcher = (*peer)(nil)
)

// watchingStore is what both are.
type watchingStore interface {
	kvstore.KVStore
	kvstore.Watcher
}

// settings are those of natsjs that decide what is stored, by the names that they have
// in a service's configuration.
type settings struct {
	kvstore.Config
	URL            string `json:"url"`
	KeyEncoding    string `json:"keyEncoding"`
	BucketPerTable bool   `json:"bucketPerTable"`
	JSONKeyValues  bool   `json:"jsonKeyValues"`
	Shared         bool   `json:"shared"` // ours only: the layout Shared
}

func (s *settings) layout() (natskv.Layout, error) {
	if s.Shared {
		return natskv.Shared(s.KeyEncoding != ""), nil
	}
	return natskv.GoOrb(natskv.OrbOptions{BucketPerTable: s.BucketPerTable, JSONKeyValues: s.JSONKeyValues, KeyEncoding: s.KeyEncoding})
}

// ourPlugin is the name under which the adapter is a plug-in of go-orb.
const ourPlugin = "mainstem"

func init() { kvstore.Register(ourPlugin, provide) }

// provide is the constructor that go-orb calls, as a service would write it.
func provide(data map[string]any, _ log.Logger, opts ...kvstore.Option) (kvstore.Type, error) {
	s := settings{Config: kvstore.NewConfig(opts...)}
	if err := config.Parse(nil, kvstore.DefaultConfigSection, data, &s); err != nil {
		return kvstore.Type{}, err
	}
	l, err := s.layout()
	if err != nil {
		return kvstore.Type{}, err
	}
	nc, err := nats.Connect(s.URL, nats.Timeout(testkit.Patience))
	if err != nil {
		return kvstore.Type{}, err
	}
	ctx := context.Background()
	store, err := natskv.OpenStore(ctx, nc, &natskv.Options{Layout: l, Timeout: testkit.Patience})
	if err != nil {
		nc.Close()
		return kvstore.Type{}, err
	}
	c := goorb.Config{Database: s.Database, Table: s.Table, NotFound: orberrors.ErrNotFound.Wrap(kvstore.ErrNotFound), OnClose: nc.Close}
	var a adapter
	if a.KVStore, err = goorb.New[
		kvstore.Record, kvstore.GetOptions, kvstore.SetOptions, kvstore.KeysOptions,
		kvstore.ReadOptions, kvstore.WriteOptions, kvstore.DeleteOptions, kvstore.ListOptions,
		kvstore.GetOption, kvstore.SetOption, kvstore.KeysOption,
		kvstore.ReadOption, kvstore.WriteOption, kvstore.DeleteOption, kvstore.ListOption,
	](ctx, store, &c); err == nil {
		a.Watcher, err = goorb.NewWatcher[kvstore.WatchEvent, kvstore.WatchOptions, kvstore.WatchOption](ctx, store, &c)
	}
	return kvstore.Type{KVStore: a}, err
}

// start has go-orb make a store of a plug-in by the configuration, and starts it.
func start(t testing.TB, plugin string, s settings) (watchingStore, error) {
	t.Helper()
	section := map[string]any{
		"plugin": plugin, "url": s.URL, "database": s.Database, "table": s.Table,
		"keyEncoding": s.KeyEncoding, "bucketPerTable": s.BucketPerTable, "jsonKeyValues": s.JSONKeyValues,
	}
	if s.Shared {
		section["shared"] = true
	}
	logger := log.Logger{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	made, err := kvstore.New(map[string]any{kvstore.DefaultConfigSection: section}, logger)
	if err != nil {
		return nil, err
	}
	noError(t, made.Start(context.Background()))
	t.Cleanup(func() { made.Stop(context.Background()) })
	return made.KVStore.(watchingStore), nil
}

// openOurs opens the adapter as a process of its own would.
func openOurs(t testing.TB, s settings) watchingStore {
	t.Helper()
	ours, err := start(t, ourPlugin, s)
	noError(t, err)
	return ours
}

// openTheirs opens natsjs, or its peer if the program does not have natsjs.
func openTheirs(t testing.TB, s settings) watchingStore {
	t.Helper()
	theirs, err := start(t, kvstore.DefaultKVStore, s)
	if err != nil && strings.Contains(err.Error(), "did you import it") {
		p := &peer{settings: s}
		noError(t, p.Start(t.Context()))
		t.Cleanup(func() { p.Stop(context.Background()) })
		return p
	}
	noError(t, err)
	return theirs
}

// eachLayout runs a test with every combination of the settings.
func eachLayout(t *testing.T, f func(t *testing.T, s settings)) {
	for _, perTable := range []bool{true, false} {
		for _, inJSON := range []bool{false, true} {
			for _, encoding := range []string{"base32", ""} {
				s := settings{BucketPerTable: perTable, JSONKeyValues: inJSON, KeyEncoding: encoding}
				s.Database = "default"
				t.Run(fmt.Sprintf("bucketPerTable=%v,jsonKeyValues=%v,keyEncoding=%s", perTable, inJSON, encoding), func(t *testing.T) { f(t, s) })
			}
		}
	}
}
