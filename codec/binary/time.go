package binary

import (
	"encoding/binary"
	"math"
	"time"
)

// The fields of a time, which is written as a struct.
const (
	timeSeconds = 1<<3 | byte(kindInt)  // since 1970-01-01 00:00:00 UTC
	timeNanos   = 2<<3 | byte(kindUint) // within the second
	timeOffset  = 3<<3 | byte(kindInt)  // seconds east of UTC
)

func appendTime(dst []byte, t time.Time) []byte {
	if s := t.Unix(); s != 0 {
		dst = binary.AppendVarint(append(dst, timeSeconds), s)
	}
	if n := t.Nanosecond(); n != 0 {
		dst = binary.AppendUvarint(append(dst, timeNanos), uint64(n))
	}
	if _, east := t.Zone(); east != 0 {
		dst = binary.AppendVarint(append(dst, timeOffset), int64(east))
	}
	return append(dst, 0)
}

// time reads the struct that appendTime writes.
func (d *decoder) time(to *time.Time) error {
	if err := d.enter(); err != nil {
		return err
	}
	var seconds, east int64
	var nanos uint64
	last := uint32(0)
	for {
		tag, err := d.tag(last)
		switch {
		case err != nil:
			return err
		case tag == 0:
			d.depth++
			return d.setTime(to, seconds, nanos, east)
		case tag == uint32(timeSeconds):
			seconds, err = d.varint()
		case tag == uint32(timeNanos):
			nanos, err = d.uvarint()
		case tag == uint32(timeOffset):
			east, err = d.varint()
		default:
			err = d.skip(kind(tag & kindMask))
		}
		if err != nil {
			return err
		}
		last = tag
	}
}

const (
	day = 24 * 60 * 60

	// A time.Time counts seconds from the year 1 in an int64.
	yearOne    = 62135596800 // seconds before 1970
	zoneMemory = 192         // what time.FixedZone allocates, at most
)

func (d *decoder) setTime(to *time.Time, seconds int64, nanos uint64, east int64) error {
	if nanos >= 1e9 || east <= -day || east >= day {
		return malformed("no time has %d nanoseconds and is %d seconds east of UTC", nanos, east)
	}
	if seconds > math.MaxInt64-yearOne {
		return mismatch("%d seconds since 1970 are out of the range of time.Time", seconds)
	}
	t := time.Unix(seconds, int64(nanos)).UTC()
	if east == 0 {
		*to = t
		return nil
	}
	if _, held := to.Zone(); held == int(east) && to.Location() != time.Local {
		there := t.In(to.Location()) // where another offset may apply at that time
		if _, now := there.Zone(); now == held {
			*to = there
			return nil
		}
	}
	if err := d.charge(1, zoneMemory); err != nil {
		return err
	}
	*to = t.In(time.FixedZone("", int(east)))
	return nil
}
