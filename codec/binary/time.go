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

// appendTime refuses what setTime refuses.
func appendTime(dst []byte, t time.Time) ([]byte, error) {
	_, east := t.Zone()
	if east <= -day || east >= day || t.Unix() > maxSeconds {
		return dst, noEncoding("the time has %d seconds since 1970, and is %d seconds east of UTC", t.Unix(), east)
	}
	if s := t.Unix(); s != 0 {
		dst = binary.AppendVarint(append(dst, timeSeconds), s)
	}
	if n := t.Nanosecond(); n != 0 {
		dst = binary.AppendUvarint(append(dst, timeNanos), uint64(n))
	}
	if east != 0 {
		dst = binary.AppendVarint(append(dst, timeOffset), int64(east))
	}
	return append(dst, 0), nil
}

// time reads the struct that appendTime writes, or another one with integers in these fields.
func (d *decoder) time(to *time.Time) error {
	if err := d.enter(); err != nil {
		return err
	}
	var numbers [4]int64 // by the numbers of the fields
	last := uint32(0)
	for {
		tag, err := d.tag(last)
		switch {
		case err != nil:
			return err
		case tag == 0:
			d.depth++
			return d.setTime(to, numbers[1], numbers[2], numbers[3])
		case tag>>3 < uint32(len(numbers)):
			numbers[tag>>3], err = d.integer(kind(tag & kindMask))
		default:
			err = d.skip(kind(tag & kindMask))
		}
		if err != nil {
			return err
		}
		last = tag
	}
}

// integer reads an integer of a time that was written as k.
func (d *decoder) integer(k kind) (int64, error) {
	switch k {
	case kindInt:
		return d.varint()
	case kindUint:
		u, err := d.uvarint()
		if err == nil && u > math.MaxInt64 {
			err = mismatch("%d overflows a part of a %s", u, timeType)
		}
		return int64(u), err
	}
	return 0, mismatch("it holds %s, want an integer of a %s", k, timeType)
}

const (
	day = 24 * 60 * 60

	// A time.Time counts seconds from the year 1 in an int64.
	yearOne    = 62135596800 // seconds before 1970
	maxSeconds = math.MaxInt64 - yearOne
	zoneMemory = 192 // what time.FixedZone allocates, at most
)

func (d *decoder) setTime(to *time.Time, seconds, nanos, east int64) error {
	if nanos < 0 || nanos >= 1e9 || east <= -day || east >= day {
		return malformed("no time has %d nanoseconds and is %d seconds east of UTC", nanos, east)
	}
	if seconds > maxSeconds {
		return mismatch("%d seconds since 1970 are out of the range of time.Time", seconds)
	}
	t := time.Unix(seconds, nanos).UTC()
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
