package viewhttp

import (
	"strconv"

	"github.com/mainstemdev/mainstem/event"
)

// expectedText is an expectation as Expected-Version says it.
func expectedText(e event.Expected) string {
	switch e {
	case event.AnyVersion:
		return "any"
	case event.NoStream:
		return "none"
	case event.StreamExists:
		return "exists"
	}
	return strconv.FormatInt(int64(e), 10)
}

// parseExpected reads an expectation.
func parseExpected(text string) (event.Expected, error) {
	switch text {
	case "", "any":
		return event.AnyVersion, nil
	case "none":
		return event.NoStream, nil
	case "exists":
		return event.StreamExists, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, invalid("the expected version is %.40q: want any, none, exists or a version", text)
	}
	return event.Expected(n), nil
}
