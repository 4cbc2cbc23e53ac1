package event

import (
	"hash/maphash"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// decoder turns records into events. It caches names, so that a thousand events of one type share
// one string. It belongs to one goroutine.
type decoder struct {
	names [128]names // by hash
	f     fields
}

// names are the two names of one hash that were used last, the newest first: two that meet there
// by chance do not replace each other with every event.
type names [2]string

// maxInterned is the length, in bytes, of the longest name that a decoder caches.
const maxInterned = 128

var nameSeed = maphash.MakeSeed()

// of returns the names of a hash.
func (d *decoder) of(hash uint64) *names { return &d.names[hash%uint64(len(d.names))] }

func (d *decoder) intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > maxInterned {
		return string(b)
	}
	s := d.of(maphash.Bytes(nameSeed, b))
	switch {
	case s[0] == string(b):
	case s[1] == string(b):
		s[0], s[1] = s[1], s[0]
	default:
		s[0], s[1] = string(b), s[0]
	}
	return s[0]
}

// internName is intern for the name of a header, whose bytes may be lent too.
func (d *decoder) internName(name string) string {
	if len(name) > maxInterned {
		return strings.Clone(name)
	}
	s := d.of(maphash.String(nameSeed, name))
	switch name {
	case s[0]:
	case s[1]:
		s[0], s[1] = s[1], s[0]
	default:
		s[0], s[1] = strings.Clone(name), s[0]
	}
	return s[0]
}

// recorded returns the event in rec. Its Data is lent by rec; everything else is owned by the
// event.
func (d *decoder) recorded(rec *mainstem.Record, stream string) (Recorded, error) {
	r := Recorded{Stream: stream, Version: rec.Version, Position: rec.Position, Time: rec.Time}
	if !rec.Live() {
		r.Type = TypeDeleted
		return r, nil
	}
	if err := d.f.parse(rec.Headers); err != nil {
		return Recorded{}, mainstem.Errorf(mainstem.KindCorrupt, "decode", "version %d: %w", rec.Version, err).At(rec.Space, rec.Key)
	}
	r.ID, r.Type, r.ContentType, r.Data = d.f.id, d.intern(d.f.typ), d.intern(d.f.content), rec.Value
	if d.f.hasIdentifiers {
		// The four identifiers share one string: they are usually used together.
		m, text := &r.Metadata, d.identifiers()
		m.CorrelationID, text = cut(text, len(d.f.corr))
		m.CausationID, text = cut(text, len(d.f.cause))
		m.UserID, text = cut(text, len(d.f.user))
		m.TenantID, _ = cut(text, len(d.f.tenant))
	}
	if d.f.tags != nil {
		r.Tags = splitTags(string(d.f.tags))
	}
	if d.f.custom > 0 {
		r.Metadata.Custom = make(map[string]string, d.f.custom)
		for i := range rec.Headers {
			if h := &rec.Headers[i]; !own(h.Name) {
				r.Metadata.Custom[d.internName(h.Name)] = string(h.Value)
			}
		}
	}
	return r, nil
}

func (d *decoder) identifiers() string {
	var scratch [256]byte
	b := append(scratch[:0], d.f.corr...)
	b = append(b, d.f.cause...)
	b = append(b, d.f.user...)
	return string(append(b, d.f.tenant...))
}

func cut(s string, n int) (head, rest string) { return s[:n], s[n:] }
