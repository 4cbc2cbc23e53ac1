package event

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Settings are the stored settings of one stream.
type Settings struct {
	// MaxCount and MaxAge bound the number and age of the events that the stream keeps. 0 means no
	// limit. [Store.Scavenge] enforces them; until it runs, older events can be read like all
	// others.
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

// ModifySettingsTo reads the settings of stream, and adds to b the write of the settings as changed
// by change, on condition that no other writer changes them meanwhile: otherwise Commit fails with
// Conflict, and the caller builds the batch again. An error is returned here and by Commit.
func (s *Store) ModifySettingsTo(ctx context.Context, b *mainstem.Batch, stream string, change func(*Settings) error) error {
	_, err := s.modifySettings(ctx, b, stream, change)
	return err
}

func (s *Store) modifySettings(ctx context.Context, b *mainstem.Batch, stream string, change func(*Settings) error) (Settings, error) {
	v, err := s.settingsOf(ctx, b, stream)
	if err == nil {
		err = change(&v)
	}
	if err != nil {
		b.Fail(err)
		return v, err
	}
	s.SetSettingsTo(b, stream, v)
	return v, b.Err()
}

// settingsOf returns the settings of stream, and adds to b the condition that they are unchanged.
func (s *Store) settingsOf(ctx context.Context, b *mainstem.Batch, stream string) (Settings, error) {
	if err := checkStream("modify settings", stream); err != nil {
		return Settings{}, err
	}
	rec, err := s.log.Get(ctx, s.spaces.settings, []byte(stream))
	if isNotFound(err) {
		b.Ensure(s.spaces.settings, settingsPolicy)
		b.IfAbsent(s.spaces.settings, []byte(stream))
		return Settings{}, nil
	}
	if err != nil {
		return Settings{}, err
	}
	b.IfVersion(s.spaces.settings, []byte(stream), rec.Version)
	return s.decodeSettings(&rec)
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

// Scavenged counts what a [Store.Scavenge] removed.
type Scavenged struct {
	Streams int    // streams that were truncated
	Events  uint64 // events that were removed
	Entries int    // records of the index that were removed; see [Store.SweepIndex]
}

// Scavenge enforces [Settings.MaxCount] and [Settings.MaxAge], and sweeps the index. It truncates
// each stream that has too many or too old events, and reads each stream that has limits. How
// exactly the limits are kept depends on how often it is called. It may remove even the newest
// event of a stream, because of its age; the stream then counts as missing. It does not change
// archived streams. Streams may be written to meanwhile.
func (s *Store) Scavenge(ctx context.Context) (Scavenged, error) {
	done, err := s.scavengeStreams(ctx)
	if err == nil {
		done.Entries, err = s.SweepIndex(ctx)
	}
	return done, err
}

// Scavengeable returns how much [Store.Scavenge] would remove now, without records of the index,
// and removes nothing.
func (s *Store) Scavengeable(ctx context.Context) (Scavenged, error) {
	return s.eachExcess(ctx, func(string, mainstem.Version) error { return nil })
}

func (s *Store) scavengeStreams(ctx context.Context) (Scavenged, error) {
	return s.eachExcess(ctx, func(stream string, before mainstem.Version) error { return s.Truncate(ctx, stream, before) })
}

// eachExcess calls do for each stream that has too many or too old events, which are those below
// version before. It returns the totals of the calls that succeeded.
func (s *Store) eachExcess(ctx context.Context, do func(stream string, before mainstem.Version) error) (Scavenged, error) {
	var done Scavenged
	now, err := s.clock(ctx)
	if err != nil {
		return done, err
	}
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
		first, before, err := s.excess(ctx, string(rec.Key), v, now)
		if err == nil && before > 0 {
			err = do(string(rec.Key), before)
		}
		var sealed *SealedError
		if errors.As(err, &sealed) {
			continue // meanwhile
		}
		if err != nil {
			return done, err
		}
		if before > 0 {
			done.Streams, done.Events = done.Streams+1, done.Events+uint64(before-first)
		}
	}
	return done, nil
}

// clock returns the time by the clock by which the log lets records expire, which leaves out a jump
// that is not accepted; that of this machine if the engine has none.
func (s *Store) clock(ctx context.Context) (time.Time, error) {
	k, ok := s.log.(mainstem.ClockKeeper)
	if !ok {
		return time.Now(), nil
	}
	state, err := k.Clock(ctx)
	if errors.Is(err, mainstem.ErrUnsupported) {
		return time.Now(), nil
	}
	return state.Now.Add(-state.Held), err
}

// excess returns the first version of stream, and the version below which v does not allow events;
// before is 0 if v allows all.
func (s *Store) excess(ctx context.Context, stream string, v Settings, now time.Time) (first, before mainstem.Version, err error) {
	if seal, _, err := s.seal(ctx, stream); err != nil || seal != NotSealed {
		return 0, 0, err
	}
	newest, live, err := s.newest(ctx, stream)
	if err != nil || !live {
		return 0, 0, err
	}
	var keep mainstem.Version // the oldest version that MaxCount allows
	if v.MaxCount > 0 && uint64(newest) > v.MaxCount {
		keep = newest - mainstem.Version(v.MaxCount) + 1
	}
	for rec, err := range s.log.Read(ctx, s.spaces.events, []byte(stream), mainstem.Versions{To: newest}) {
		if err != nil {
			return 0, 0, err
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
	return first, before, nil
}
