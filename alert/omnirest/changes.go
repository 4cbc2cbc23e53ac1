package omnirest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/httpconn"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// Change is a change of a row, as the feed of a Mainstem server tells it.
type Change struct {
	ID      uint64 // its place in the server's log, for [ChangeOptions.After]; 0 of rows of Since
	Deleted bool
	Row     Row // as it is now; of a deleted row, its primary key
}

// ChangeOptions says what [Client.Changes] yields. Nil and the zero value: what is
// committed from now on, until ctx ends.
type ChangeOptions struct {
	// Columns are those of the rows; the primary key is always there. Default: all.
	Columns []string
	// Since begins with the rows whose StateChange is not before it, as they are now.
	Since time.Time
	// After resumes: everything that the server's log still holds behind this place. Not
	// with Since.
	After uint64
	// NoFollow ends when the rows of Since were yielded. Not with After: a feed that goes
	// on somewhere does not tell when it has caught up.
	NoFollow bool
	// Ready is called once, when the rows of Since were yielded, without them at once. If
	// the loop ends before another change, resume After its ID. Nil: nothing is called.
	Ready func(after uint64)
}

// Changes yields the changes of a table, "database.table", as they are committed: the
// feed of server-sent events that Mainstem's server has; any other is Unsupported. What
// changed several times since may be yielded once. Rows are lent until the loop goes on.
//
// The loop ends with an error when ctx is done, and Unavailable when the connection or
// the server ends: ask again, After the last ID, or that of [ChangeOptions.Ready] if there
// was no change behind it. If it ends before Ready, begin anew with Since, and forget the
// rows there were: a deletion in the meantime is not told. Begin anew as well if After is
// refused (Invalid), or more than a day old: the server forgets deletions.
func (c *Client) Changes(ctx context.Context, table string, o *ChangeOptions) iter.Seq2[Change, error] {
	var opts ChangeOptions
	if o != nil {
		opts = *o
	}
	return func(yield func(Change, error) bool) {
		enough := false
		err := c.feed(ctx, table, &opts, func(change Change) bool {
			enough = !yield(change, nil)
			return !enough
		})
		if err != nil && !enough {
			yield(Change{}, err)
		}
	}
}

const (
	acceptJSON   = "Accept: application/json\r\n"
	eventStream  = "text/event-stream"
	acceptEvents = "Accept: " + eventStream + "\r\n"
)

// feed asks for a feed and gives its changes to do, until that has enough.
func (c *Client) feed(ctx context.Context, table string, o *ChangeOptions, do func(Change) bool) error {
	path, q, err := (&Where{}).path(table, false)
	switch {
	case err != nil:
		return err
	case o.After > 0 && (!o.Since.IsZero() || o.NoFollow):
		return mainstem.Refusef(mainstem.KindInvalid, "omnirest", "After goes neither with Since nor with NoFollow")
	}
	if own, err := c.Mainstem(ctx); err != nil {
		return err
	} else if !own {
		return mainstem.Errorf(mainstem.KindUnsupported, "omnirest", "the server has no feed of changes: it is not Mainstem").
			WithHint("ask for rows by StateChange")
	}
	path = withQuery(path, o.query(q))
	ctx, cancel := context.WithCancel(ctx)
	header := append([]byte(acceptEvents), bytes.TrimPrefix(c.header, []byte(acceptJSON))...)
	resp, err := c.do.Do(ctx, &httpconn.Request{Method: http.MethodGet, Path: path, Header: header})
	if err != nil {
		cancel()
		return err
	}
	defer func() { _ = resp.Close() }() // an answer cut short is an error of reading
	defer cancel()                      // first, so that closing does not wait for the next event
	if resp.Status != http.StatusOK {
		return c.failed(resp, mainstem.NoOutcome)
	}
	if resp.ContentType != eventStream {
		return mainstem.Errorf(mainstem.KindCorrupt, "omnirest", "a feed of type %.60q: want %s", resp.ContentType, eventStream)
	}
	body, err := unpack(resp)
	if err != nil {
		return err
	}
	events := rowjson.NewEvents(body, c.limits.MaxValue)
	for {
		e, err := events.Next()
		if err != nil {
			return feedFailed(ctx, err)
		}
		change, err := changeOf(&e, c.limits)
		switch {
		case err != nil:
			return err
		case e.Name == "ready":
			if o.Ready != nil {
				o.Ready(change.ID)
			}
			if o.NoFollow {
				return nil
			}
		case e.Name != "change" && e.Name != "delete":
		case !do(change):
			return nil
		}
	}
}

func (o *ChangeOptions) query(q url.Values) url.Values {
	if len(o.Columns) > 0 {
		q.Set("collist", strings.Join(o.Columns, ","))
	}
	if !o.Since.IsZero() {
		q.Set("since", strconv.FormatInt(o.Since.Unix(), 10))
	}
	if o.After > 0 {
		q.Set("after", strconv.FormatUint(o.After, 10))
	}
	return q
}

// feedFailed says why a feed has ended.
func feedFailed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return mainstem.Ended(ctx, "omnirest", time.Time{}, "changes")
	case errors.Is(err, io.EOF):
		return mainstem.Errorf(mainstem.KindUnavailable, "omnirest", "the server has ended the feed")
	}
	return err
}

// changeOf returns what an event says. The last event of a feed that cannot go on is an
// error.
func changeOf(e *rowjson.Event, l rowjson.Limits) (c Change, err error) {
	switch e.Name {
	case "change", "delete":
		c.Deleted = e.Name == "delete"
		if e.ID != "" {
			if c.ID, err = strconv.ParseUint(e.ID, 10, 64); err != nil {
				return c, corruptEvent(e, err)
			}
		}
		r := rowjson.NewReader(bytes.NewReader(e.Data), &l)
		raw, err := r.Value(nil)
		if err == nil {
			err = r.End()
		}
		if err != nil || raw[0] != '{' {
			return c, corruptEvent(e, err)
		}
		c.Row = rowjson.NewRow(raw)
	case "ready":
		if c.ID, err = strconv.ParseUint(string(e.Data), 10, 64); err != nil {
			return c, corruptEvent(e, err)
		}
	case "error":
		message := ""
		r := rowjson.NewReader(bytes.NewReader(e.Data), &l)
		err := r.Object(func(key string) (err error) {
			if key != "message" {
				return r.Skip()
			}
			message, err = r.Text()
			return err
		})
		if err != nil {
			return c, corruptEvent(e, err)
		}
		return c, mainstem.Errorf(mainstem.KindUnavailable, "omnirest", "the server has ended the feed: %s", message)
	}
	return c, nil
}

func corruptEvent(e *rowjson.Event, err error) error {
	return mainstem.Errorf(mainstem.KindCorrupt, "omnirest", "an event %.20q whose data is %.60q: %w", e.Name, e.Data, errors.Join(errors.New("want a row, or a place in the log of ready"), err))
}
