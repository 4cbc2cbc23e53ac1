package wallclock

import "math"

// ExpiresAt returns when something ends that lives for ttl ns from now on, unix ns. The
// end of what would live beyond the largest time is that time: it never comes.
func ExpiresAt(now, ttl int64) int64 {
	if ttl > 0 && now > math.MaxInt64-ttl {
		return math.MaxInt64
	}
	return now + ttl
}

// TooOld reports whether a record of the time written is older than maxAge at now, all in
// ns; a maxAge of 0 means that no record is. It compares the ages, and no sum of a time
// and an age: that may be larger than any int64.
func TooOld(written, now, maxAge int64) bool {
	return maxAge > 0 && written < now && uint64(now)-uint64(written) > uint64(maxAge)
}
