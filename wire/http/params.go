package viewhttp

import (
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// flag reads a parameter that is there or not: ?keys, ?keys=true.
func (c *call) flag(name string) (bool, error) {
	if !c.query.Has(name) {
		return false, nil
	}
	text := c.query.Get(name)
	if text == "" {
		return true, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, invalid("the parameter %s is %.40q: want true or false", name, text)
	}
	return v, nil
}

// flags reads several parameters as flag does.
func (c *call) flags(into map[string]*bool) error {
	for name, p := range into {
		v, err := c.flag(name)
		if err != nil {
			return err
		}
		*p = v
	}
	return nil
}

// number reads a parameter of digits; 0 if it is not there.
func (c *call) number(name string) (uint64, error) {
	text := c.query.Get(name)
	if text == "" && !c.query.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, invalid("the parameter %s is %.40q: want a number from 0 on", name, text)
	}
	return n, nil
}

// Pages.
const (
	defaultLimit = 100
	maxLimit     = 10_000
)

// limit reads how many entries a page may have.
func (c *call) limit() (int, error) {
	n, err := c.number("limit")
	if err != nil {
		return 0, err
	}
	if n > maxLimit {
		return 0, invalid("the parameter limit is %d: the most is %d", n, maxLimit)
	}
	if n == 0 {
		return defaultLimit, nil
	}
	return int(n), nil
}

// moment reads a time of RFC 3339; zero if it is not there.
func (c *call) moment(name string) (time.Time, error) {
	text := c.query.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, invalid("the parameter %s is %.40q: want a time such as 2026-01-31T12:00:00Z", name, text)
	}
	return t, nil
}

// bytesParameter reads one of two parameters: name, a text, or name64, base64 of any bytes.
func (c *call) bytesParameter(name string) (value string, given bool, err error) {
	name64 := name + "64"
	switch {
	case c.query.Has(name) && c.query.Has(name64):
		return "", false, invalid("both parameters %s and %s are there: want one", name, name64)
	case c.query.Has(name64):
		b, err := decode64(c.query.Get(name64))
		if err != nil {
			return "", false, invalid("the parameter %s is not base64: %w", name64, err)
		}
		return string(b), true, nil
	}
	return c.query.Get(name), c.query.Has(name), nil
}

// lastEvent reads where a follower goes on: the header Last-Event-ID, false if it is not there.
func (c *call) lastEvent() (mainstem.Position, bool, error) {
	text := c.r.Header.Get(headerLastID)
	if text == "" {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, false, invalid("%s is %.40q: want the id of an event of this stream, a position", headerLastID, text)
	}
	return mainstem.Position(n), true, nil
}

// revisions reads the revisions of If-Match or If-None-Match. any says that it is "*".
func (c *call) revisions(header string) (all []mainstem.Version, any bool, err error) {
	text := strings.Join(c.r.Header.Values(header), ",")
	if text == "" {
		return nil, false, nil
	}
	if strings.TrimSpace(text) == "*" {
		return nil, true, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		tag := strings.TrimPrefix(strings.TrimSpace(part), "W/") // proxies make a tag weak when they compress
		n, err := strconv.ParseUint(strings.Trim(tag, `"`), 10, 64)
		if err != nil || len(tag) < 3 || tag[0] != '"' || tag[len(tag)-1] != '"' {
			return nil, false, invalid(`%s is %.60q: want "REVISION" as ETag says it, or *`, header, text)
		}
		all = append(all, mainstem.Version(n))
	}
	return all, false, nil
}
