package event

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Settings are what is known and wanted of one stream, besides its events.
type Settings struct {
	// MaxCount and MaxAge bound the events that the stream keeps: at most so many,
	// and none older. 0 means no limit. [Store.Scavenge] enforces them; until it runs,
	// older events are read like all others.
	MaxCount uint64        `json:"max_count,omitempty"`
	MaxAge   time.Duration `json:"max_age_ns,omitempty"`
	// Custom belongs to the application.
	Custom map[string]string `json:"custom,omitempty"`
}

// Settings are one record of the space event.settings/<store>: the key is the
// stream, the value the JSON of the struct.
var settingsPolicy = mainstem.Policy{History: 1}

// SetSettingsTo replaces the settings of stream as part of b. The stream need not exist.
func (s *Store) SetSettingsTo(b *mainstem.Batch, stream string, v Settings) {
	err := checkStream("set settings", stream)
	if err == nil && v.MaxAge < 0 {
		err = mainstem.Refusef(mainstem.KindInvalid, "set settings", "stream %.60q: MaxAge is %v: want 0 (no limit) or more", stream, v.MaxAge)
	}
	if err != nil {
		b.Fail(err)
		return
	}
	value, err := json.Marshal(v)
	if err != nil {
		b.Fail(mainstem.Refusef(mainstem.KindInvalid, "set settings", "stream %.60q: %w", stream, err))
		return
	}
	b.Ensure(s.spaces.settings, settingsPolicy)
	b.Put(s.spaces.settings, []byte(stream), value)
}

// Settings returns the settings of stream; the zero Settings if it has none.
func (s *Store) Settings(ctx context.Context, stream string) (Settings, error) {
	if err := checkStream("settings", stream); err != nil {
		return Settings{}, err
	}
	rec, err := s.log.Get(ctx, s.spaces.settings, []byte(stream))
	if err != nil {
		return Settings{}, ignoreNotFound(err)
	}
	return s.decodeSettings(&rec)
}

func (s *Store) decodeSettings(rec *mainstem.Record) (Settings, error) {
	var v Settings
	if err := json.Unmarshal(rec.Value, &v); err != nil {
		return Settings{}, mainstem.Errorf(mainstem.KindCorrupt, "decode", "settings: %w", err).At(s.spaces.settings, rec.Key)
	}
	return v, nil
}

func (s *Store) forgetSettings(b *mainstem.Batch, key []byte) {
	b.Ensure(s.spaces.settings, settingsPolicy)
	b.Add(mainstem.Write{Op: mainstem.OpForget, Space: s.spaces.settings, Key: key})
}

// Scavenged says what a [Store.Scavenge] did.
type Scavenged struct {
	Streams int    // streams that were truncated
	Events  uint64 // events that were removed
	Entries int    // records of the index that were removed; see [Store.SweepIndex]
}

// Scavenge enforces [Settings.MaxCount] and [Settings.MaxAge], and sweeps the index: it truncates each
// stream that has too many or too old events. Call it as often as the limits should
// hold; it costs a look at each stream that has limits. The newest event of a stream
// may be removed too, by its age; the stream then counts as missing. Archived
// streams are left alone. A stream that is written to meanwhile is no trouble.
func (s *Store) Scavenge(ctx context.Context) (Scavenged, error) {
	done, err := s.scavengeStreams(ctx)
	if err == nil {
		done.Entries, err = s.SweepIndex(ctx)
	}
	return done, err
}

func (s *Store) scavengeStreams(ctx context.Context) (Scavenged, error) {
	var done Scavenged
	now := time.Now()
	for rec, err := range s.log.Scan(ctx, s.spaces.settings, mainstem.Range{}) {
		if err != nil {
			return done, ignoreNotFound(err)
		}
		v, err := s.decodeSettings(&rec)
		if err != nil {
			return done, err
		}
		if v.MaxCount == 0 && v.MaxAge == 0 {
			continue
		}
		n, err := s.scavenge(ctx, string(rec.Key), v, now)
		if err != nil {
			return done, err
		}
		if n > 0 {
			done.Streams, done.Events = done.Streams+1, done.Events+n
		}
	}
	return done, nil
}

// scavenge truncates stream to what v allows and returns how many events went.
func (s *Store) scavenge(ctx context.Context, stream string, v Settings, now time.Time) (uint64, error) {
	if seal, _, err := s.seal(ctx, stream); err != nil || seal != NotSealed {
		return 0, err
	}
	newest, live, err := s.newest(ctx, stream)
	if err != nil || !live {
		return 0, err
	}
	var keep mainstem.Version // the oldest version to keep by count
	if v.MaxCount > 0 && uint64(newest) > v.MaxCount {
		keep = newest - mainstem.Version(v.MaxCount) + 1
	}
	var first, before mainstem.Version
	for rec, err := range s.log.Read(ctx, s.spaces.events, []byte(stream), mainstem.Versions{To: newest}) {
		if err != nil {
			return 0, err
		}
		if !rec.Live() {
			continue
		}
		if first == 0 {
			first = rec.Version
		}
		tooOld := v.MaxAge > 0 && now.Sub(rec.Time) > v.MaxAge
		if rec.Version >= keep && !tooOld {
			break
		}
		before = rec.Version + 1
	}
	if before == 0 {
		return 0, nil
	}
	return uint64(before - first), s.Truncate(ctx, stream, before)
}
