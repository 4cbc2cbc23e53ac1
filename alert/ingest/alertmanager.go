package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// notification is what is used of what Alertmanager posts to a webhook. Of what Prometheus posts
// it has the alerts only.
type notification struct {
	Version     string     `json:"version"`
	GroupKey    string     `json:"groupKey"`
	Receiver    string     `json:"receiver"`
	ExternalURL string     `json:"externalURL"`
	Alerts      promAlerts `json:"alerts"`
}

// promAlert is an alert in a notification, and in what Prometheus posts.
type promAlert struct {
	Status       string    `json:"status"`
	Labels       texts     `json:"labels"`
	Annotations  texts     `json:"annotations"`
	StartsAt     time.Time `json:"startsAt"`
	EndsAt       time.Time `json:"endsAt"`
	GeneratorURL string    `json:"generatorURL"`
	Fingerprint  string    `json:"fingerprint"`
}

// promAlerts is a list that is decoded up to a limit. A list takes many times the memory of its
// text, so the limit has to be known while it is decoded.
type promAlerts struct {
	list  []promAlert
	limit int
}

// errTooMany is the reason of a request with too many alerts.
var errTooMany = errors.New("there are too many alerts in the request")

// UnmarshalJSON implements [json.Unmarshaler].
func (p *promAlerts) UnmarshalJSON(text []byte) error {
	p.list = nil
	return eachOf(text, '[', func(d *json.Decoder) error {
		if len(p.list) == p.limit {
			return errTooMany
		}
		p.list = append(p.list, promAlert{})
		return d.Decode(&p.list[len(p.list)-1])
	})
}

// texts is labels or annotations, decoded up to the limit of both.
type texts map[string]string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *texts) UnmarshalJSON(text []byte) error {
	*t = texts{}
	return eachOf(text, '{', func(d *json.Decoder) error {
		name, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := name.(string)
		if !ok {
			return fmt.Errorf("%v is no name", name)
		}
		var value string
		if err := d.Decode(&value); err != nil {
			return err
		}
		if (*t)[key] = value; len(*t) > maxLabels {
			return fmt.Errorf("more than %d labels or annotations", maxLabels)
		}
		return nil
	})
}

// maxLabels bounds the labels and annotations of an alert.
const maxLabels = MaxFields / 2

// eachOf calls f at each item of a list or object that begins with open. Null has none.
func eachOf(text []byte, open json.Delim, f func(*json.Decoder) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	t, err := d.Token()
	if err != nil || t == nil {
		return err
	}
	if t != open {
		return fmt.Errorf("want %v", open)
	}
	for d.More() {
		if err := f(d); err != nil {
			return err
		}
	}
	return nil
}

// webhookVersion is the version of notifications that is known.
const webhookVersion = "4"

// The states of an alert, in the field status.
const (
	statusFiring   = "firing"
	statusResolved = "resolved"
)

// decodeNotification reads what Alertmanager posts to a webhook, with at most limit alerts.
func decodeNotification(body []byte, limit int, _ time.Time) (*notification, error) {
	n := notification{Alerts: promAlerts{limit: limit}}
	if err := decodeBody(body, &n); err != nil {
		return nil, err
	}
	if n.Version != webhookVersion {
		return nil, fmt.Errorf("the notification has version %q: want %q", n.Version, webhookVersion)
	}
	return &n, nil
}

// decodeAlerts reads what Prometheus posts to an Alertmanager, at most limit alerts. What has
// ended before now is resolved.
func decodeAlerts(body []byte, limit int, now time.Time) (*notification, error) {
	n := notification{Alerts: promAlerts{limit: limit}}
	if err := decodeBody(body, &n.Alerts); err != nil {
		return nil, err
	}
	for i := range n.Alerts.list {
		a := &n.Alerts.list[i]
		if a.StartsAt.IsZero() {
			a.StartsAt = now
			if !a.EndsAt.IsZero() && a.EndsAt.Before(now) {
				a.StartsAt = a.EndsAt
			}
		}
		a.Status = statusFiring
		if !a.EndsAt.IsZero() && !a.EndsAt.After(now) {
			a.Status = statusResolved
		}
	}
	return &n, nil
}

// event returns an alert as an event.
func (n *notification) event(i int, now time.Time) *Event {
	e := n.Alerts.list[i].event(now)
	if n.Version != "" { // else Prometheus sent it
		e.Set("receiver", n.Receiver)
		e.Set("group_key", n.GroupKey)
		e.Set("external_url", n.ExternalURL)
	}
	return e
}

func decodeBody(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the body is no JSON of the expected form: %w", err)
	}
	return nil
}

// check says why the alert cannot be an event.
func (a *promAlert) check() error {
	switch {
	case a.Status != statusFiring && a.Status != statusResolved:
		return fmt.Errorf("it has the status %.20q: want firing or resolved", a.Status)
	case len(a.Labels) == 0:
		return errors.New("it has no labels")
	case len(a.Labels)+len(a.Annotations) > maxLabels:
		return fmt.Errorf("%d labels and annotations: the limit is %d", len(a.Labels)+len(a.Annotations), maxLabels)
	case !a.EndsAt.IsZero() && a.EndsAt.Before(a.StartsAt):
		return errors.New("it ends before it starts")
	}
	return nil
}

// maxKey bounds the field key, so that it fits most columns.
const maxKey = 200

// event returns the alert as an event, with these fields, if they are not empty:
//
//	status         firing or resolved
//	alertname      the label
//	severity       the label; "resolution" of what is resolved
//	key            all labels but alertname, in the order of their names; the end of a long one
//	               is a hash
//	fingerprint  generator_url
//	starts_at      seconds since 1970, like the other times
//	ends_at        when it was resolved, or will be if nothing is heard until then
//	changed_at     when it began to be what status says
//	age            seconds from changed_at until now
//	expires_in     seconds from starts_at to an end that is still to come
//	label.NAME  annotation.NAME
//
// A webhook adds receiver, group_key and external_url.
func (a *promAlert) event(now time.Time) *Event {
	e := NewEvent(Alertmanager)
	e.Received = now.Unix()
	changed := a.StartsAt.Unix()
	severity := a.Labels["severity"]
	if a.Status == statusResolved {
		severity = "resolution"
		// It has to be later than the problem, which may have begun in the same second.
		changed = max(a.EndsAt.Unix(), changed+1)
	}
	set := func(name, value string) {
		if value != "" {
			e.Set(name, value)
		}
	}
	set("status", a.Status)
	set("alertname", a.Labels["alertname"])
	set("severity", severity)
	set("key", a.key())
	set("fingerprint", a.Fingerprint)
	set("generator_url", a.GeneratorURL)
	set("starts_at", strconv.FormatInt(a.StartsAt.Unix(), 10))
	set("changed_at", strconv.FormatInt(changed, 10))
	set("age", strconv.FormatInt(min(max(now.Unix()-changed, 0), 1<<31-1), 10))
	if !a.EndsAt.IsZero() {
		set("ends_at", strconv.FormatInt(a.EndsAt.Unix(), 10))
		if a.Status == statusFiring {
			set("expires_in", strconv.FormatInt(min(max(a.EndsAt.Unix()-a.StartsAt.Unix(), 1), 1<<31-1), 10))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		set("label."+name, a.Labels[name])
	}
	for _, name := range slices.Sorted(maps.Keys(a.Annotations)) {
		set("annotation."+name, a.Annotations[name])
	}
	return e
}

// key tells alerts of one name apart, firing or not. The severity is part of it: rules of one
// name may have several, with a threshold each.
func (a *promAlert) key() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		if name == "alertname" || a.Labels[name] == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name + "=" + a.Labels[name])
	}
	return shorten(clean(b.String()), maxKey)
}

// readBody reads a request's body of at most limit bytes.
func readBody(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("the body is %w: the limit is %d bytes", errTooLong, limit)
	}
	return body, nil
}
