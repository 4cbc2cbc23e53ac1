package domains_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// customerCreated has two fields that can be read only with the key of the tenant.
type customerCreated struct {
	Tenant, Name, Country string
	Email, Phone          string
}

// keyring has a key for each tenant. A real one uses a key management service.
type keyring struct {
	mu   sync.Mutex
	keys map[string]cipher.AEAD
}

func newKeyring(t *testing.T, tenants ...string) *keyring {
	t.Helper()
	k := &keyring{keys: make(map[string]cipher.AEAD)}
	for _, tenant := range tenants {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		block, err := aes.NewCipher(key)
		if err == nil {
			k.keys[tenant], err = cipher.NewGCM(block)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func (k *keyring) of(tenant string) cipher.AEAD {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys[tenant]
}

// destroy removes the key of a tenant, so that everything that was encrypted with it is unreadable
// (crypto-shredding).
func (k *keyring) destroy(tenant string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.keys, tenant)
}

var errNoKey = errors.New("the tenant has no key")

// shredded is the value of a field whose key is gone.
const shredded = "[shredded]"

// private is the codec of customers: JSON with encrypted e-mail address and phone number. The
// tenant and the name of the field are authenticated with each.
type private struct{ keys *keyring }

func (private) Name() string { return "customer-private" }

func (p private) Append(dst []byte, v any) ([]byte, error) {
	c, ok := v.(customerCreated)
	aead := p.keys.of(c.Tenant)
	if !ok || aead == nil {
		return dst, codec.EncodeError(p.Name(), v, errNoKey)
	}
	for name, field := range c.fields() {
		nonce := make([]byte, aead.NonceSize())
		_, _ = rand.Read(nonce)
		sealed, _ := json.Marshal(aead.Seal(nonce, nonce, []byte(*field), []byte(c.Tenant+"\x00"+name))) // base64 in quotes
		*field = strings.Trim(string(sealed), `"`)
	}
	return codec.JSON.Append(dst, c)
}

func (p private) Decode(src []byte, v any) error {
	c, ok := v.(*customerCreated)
	if !ok {
		return codec.DecodeError(p.Name(), v, codec.ErrTarget)
	}
	if err := codec.JSON.Decode(src, c); err != nil {
		return err
	}
	aead := p.keys.of(c.Tenant)
	for name, field := range c.fields() {
		if aead == nil {
			*field = shredded
			continue
		}
		var sealed []byte
		err := json.Unmarshal([]byte(`"`+*field+`"`), &sealed)
		if err == nil && len(sealed) < aead.NonceSize() {
			err = errors.New("it is too short")
		}
		var open []byte
		if err == nil {
			open, err = aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], []byte(c.Tenant+"\x00"+name))
		}
		if err != nil {
			return codec.DecodeError(p.Name(), v, err)
		}
		*field = string(open)
	}
	return nil
}

// fields are those that are encrypted.
func (c *customerCreated) fields() map[string]*string {
	return map[string]*string{"email": &c.Email, "phone": &c.Phone}
}

// customers returns types that encrypt, and read what was written in clear before.
func customers(t *testing.T, keys *keyring) *event.Types {
	t.Helper()
	types := event.NewTypes(nil)
	if err := event.Register[customerCreated](types, "CustomerCreated", event.WithCodec(private{keys}, codec.JSON)); err != nil {
		t.Fatal(err)
	}
	return types
}

func appendValue(t *testing.T, s *event.Store, types *event.Types, stream string, v any) {
	t.Helper()
	ev, err := types.Encode(v)
	if err == nil {
		_, err = s.Append(t.Context(), stream, event.AnyVersion, []event.Event{ev})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// decodeOnly returns the one event of a stream.
func decodeOnly(t *testing.T, s *event.Store, types *event.Types, stream string) (event.Recorded, customerCreated) {
	t.Helper()
	evs, err := s.Load(t.Context(), stream, nil)
	if err != nil || len(evs) != 1 {
		t.Fatalf("%d events, %v", len(evs), err)
	}
	v, err := types.Decode(evs[0])
	if err != nil {
		t.Fatal(err)
	}
	return evs[0], v.(customerCreated)
}

// Fields are stored encrypted and read in clear. Without the key of the tenant these fields are
// gone, and everything else remains.
func TestEncryption(t *testing.T) {
	keys := newKeyring(t, "a", "b")
	s, types := store(t, "crm"), customers(t, keys)
	alice := customerCreated{"a", "Alice", "CH", "alice@example.org", "+41 1"}
	bob := customerCreated{"b", "Bob", "FR", "bob@example.org", "+33 1"}
	appendValue(t, s, types, "customer-1", alice)
	appendValue(t, s, types, "customer-2", bob)
	stored, got := decodeOnly(t, s, types, "customer-1")
	if got != alice || strings.Contains(string(stored.Data), "alice@") || !strings.Contains(string(stored.Data), "Alice") {
		t.Errorf("%+v is stored as %s", got, stored.Data)
	}
	keys.destroy("b")
	bob.Email, bob.Phone = shredded, shredded
	if _, got := decodeOnly(t, s, types, "customer-2"); got != bob {
		t.Errorf("without the key: %+v", got)
	}
	if _, got := decodeOnly(t, s, types, "customer-1"); got != alice {
		t.Errorf("the other tenant: %+v", got)
	}
	if _, err := types.Encode(bob); !errors.Is(err, mainstem.ErrInvalid) || !errors.Is(err, errNoKey) {
		t.Errorf("a new event of a tenant without key: %v", err)
	}
}

// Events that were stored in clear are encrypted in place: version, position, time and ID stay the
// same. Repeating it changes nothing.
func TestEncryptInPlace(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s, clear, types := storeIn(t, log, "crm"), event.NewTypes(nil), customers(t, newKeyring(t, "a"))
		if err := event.Register[customerCreated](clear, "CustomerCreated"); err != nil {
			t.Fatal(err)
		}
		alice := customerCreated{"a", "Alice", "CH", "alice@example.org", "+41 1"}
		appendValue(t, s, clear, "customer-1", alice)
		before, _ := decodeOnly(t, s, types, "customer-1")
		for round, want := range []int{1, 0} {
			if n := encryptAll(t, s, types); n != want {
				t.Errorf("round %d encrypted %d events, want %d", round+1, n, want)
			}
		}
		after, got := decodeOnly(t, s, types, "customer-1")
		if got != alice || strings.Contains(string(after.Data), "alice@") {
			t.Errorf("%+v is stored as %s", got, after.Data)
		}
		if after.ID != before.ID || after.Version != before.Version || after.Position != before.Position || !after.Time.Equal(before.Time) {
			t.Errorf("%+v became %+v", before, after)
		}
	})
}

// encryptAll rewrites the events that are stored in clear, and returns their number.
func encryptAll(t *testing.T, s *event.Store, types *event.Types) int {
	t.Helper()
	n := 0
	all, err := s.Page(t.Context(), &event.FeedOptions{Filter: event.Filter{Types: []string{"CustomerCreated"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range all {
		v, err := types.Decode(old)
		var ev event.Event
		if err == nil {
			ev, err = types.Encode(v)
		}
		if err == nil && old.ContentType != ev.ContentType {
			old.Event.Data, old.Event.ContentType = ev.Data, ev.ContentType
			err = s.Rewrite(t.Context(), old.Stream, old.Version, old.Event)
			n++
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}
