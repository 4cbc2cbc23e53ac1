package event

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// Limits of tags.
const (
	MaxTags = 32  // tags of one event; an index accepts fewer, see [IndexOptions.MaxTags]
	MaxTag  = 256 // bytes in one tag
)

// The header $tags holds the tags of an event in their order, separated by line feeds. A tag has no
// control characters, so it contains no line feed.
const tagSeparator = "\n"

// maxTagBytes is the length of the longest $tags.
const maxTagBytes = MaxTags*(MaxTag+len(tagSeparator)) - len(tagSeparator)

// checkTags returns an error, which does not name the event, if the tags cannot be stored.
func checkTags(tags []string) error {
	if len(tags) > MaxTags {
		return fmt.Errorf("%d tags: the limit is %d", len(tags), MaxTags)
	}
	for i, tag := range tags {
		if err := checkTag(tag); err != nil {
			return err
		}
		if slices.Contains(tags[:i], tag) {
			return fmt.Errorf("the tag %.60q is there twice", tag)
		}
	}
	return nil
}

func checkTag(tag string) error {
	if tag == "" || len(tag) > MaxTag {
		return fmt.Errorf("the tag %.60q has %d bytes: want 1 to %d", tag, len(tag), MaxTag)
	}
	if !plain(tag) {
		return fmt.Errorf("the tag %.60q is not UTF-8 without control characters", tag)
	}
	return nil
}

// tagBytes returns the length of $tags.
func tagBytes(tags []string) int {
	n := len(tags) - 1
	for _, tag := range tags {
		n += len(tag)
	}
	return n
}

// tags adds the header $tags, unless there are none.
func (e *encoder) tags(tags []string) {
	if len(tags) == 0 {
		return
	}
	n := len(e.bytes)
	for i, tag := range tags {
		if i > 0 {
			e.bytes = append(e.bytes, tagSeparator...)
		}
		e.bytes = append(e.bytes, tag...)
	}
	e.headers = append(e.headers, mainstem.Header{Name: headerTags, Value: e.bytes[n:len(e.bytes):len(e.bytes)]})
}

// checkTagHeader returns an error for a value of $tags that [encoder.tags] did not write.
func checkTagHeader(value []byte) error {
	if len(value) > maxTagBytes {
		return fmt.Errorf("header %s has %d bytes: the limit is %d", headerTags, len(value), maxTagBytes)
	}
	for n, rest, more := 1, value, true; more; n++ {
		var tag []byte
		tag, rest, more = bytes.Cut(rest, []byte(tagSeparator))
		if len(tag) == 0 || len(tag) > MaxTag || n > MaxTags {
			return fmt.Errorf("header %s: tag %d has %d bytes: want at most %d tags of 1 to %d bytes", headerTags, n, len(tag), MaxTags, MaxTag)
		}
	}
	return nil
}

// splitTags returns the tags in a value of $tags that was checked.
func splitTags(value string) []string { return strings.Split(value, tagSeparator) }

// hasTag reports whether value, of $tags, holds tag.
func hasTag(value []byte, tag string) bool {
	for more := len(value) > 0; more; {
		var one []byte
		one, value, more = bytes.Cut(value, []byte(tagSeparator))
		if string(one) == tag {
			return true
		}
	}
	return false
}

// addTags returns tags followed by the elements of more that are missing in it. It changes neither.
func addTags(tags, more []string) []string {
	out := tags
	for _, tag := range more {
		if !slices.Contains(out, tag) {
			out = append(out[:len(out):len(out)], tag)
		}
	}
	return out
}

// tagged returns events with the tags that [Options.Tagger] adds. It does not change events.
func (s *Store) tagged(events []Event) []Event {
	if s.opts.Tagger == nil {
		return events
	}
	events = slices.Clone(events)
	for i := range events {
		events[i].Tags = addTags(events[i].Tags, s.opts.Tagger(events[i]))
	}
	return events
}

// Tags is implemented by Go types of events that have tags: [Types.Encode] adds them to the event.
// So events of aggregates, deciders and decisions are tagged when they are appended.
type Tags interface {
	// EventTags returns the tags, within the limits of [Event.Tags].
	EventTags() []string
}
