package event

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// Query selects events of a store by type and tags, whatever their streams are: the events that at
// least one of its items selects. A query without items is Invalid; [All] selects everything. Its
// JSON form is stable.
type Query []Item

// Item selects the events that have one of its types, or any if it names none, and all of its
// tags. The empty item selects every event.
type Item struct {
	Types []string `json:"types,omitempty"`
	Tags  []string `json:"tags,omitempty"`
}

// All returns the query that selects every event.
func All() Query { return Query{{}} }

// Tagged returns the query that selects the events that have all of tags.
func Tagged(tags ...string) Query { return Query{{Tags: tags}} }

// Limits of a query.
const (
	MaxItems     = 256 // items
	MaxItemTypes = 256 // types of one item
)

// String returns the query as "type A or B, tag t and u; or tag v".
func (q Query) String() string {
	items := make([]string, len(q))
	for i := range q {
		items[i] = q[i].String()
	}
	return strings.Join(items, "; or ")
}

// String returns the item as "type A or B, tag t and u".
func (it Item) String() string {
	var parts []string
	if len(it.Types) > 0 {
		parts = append(parts, "type "+strings.Join(it.Types, " or "))
	}
	if len(it.Tags) > 0 {
		parts = append(parts, "tag "+strings.Join(it.Tags, " and "))
	}
	if len(parts) == 0 {
		return "every event"
	}
	return strings.Join(parts, ", ")
}

// Match reports whether the query selects ev.
func (q Query) Match(ev Event) bool {
	return slices.ContainsFunc(q, func(it Item) bool {
		return (len(it.Types) == 0 || slices.Contains(it.Types, ev.Type)) &&
			!slices.ContainsFunc(it.Tags, func(tag string) bool { return !slices.Contains(ev.Tags, tag) })
	})
}

// matches is Match for the headers of a record.
func (q Query) matches(f *fields) bool {
	for i := range q {
		it := &q[i]
		if len(it.Types) > 0 && !slices.ContainsFunc(it.Types, func(typ string) bool { return typ == string(f.typ) }) {
			continue
		}
		if !slices.ContainsFunc(it.Tags, func(tag string) bool { return !hasTag(f.tags, tag) }) {
			return true
		}
	}
	return false
}

func (q Query) check(op string) error {
	if len(q) == 0 || len(q) > MaxItems {
		return mainstem.Errorf(mainstem.KindInvalid, op, "the query has %d items: want 1 to %d; event.All selects every event", len(q), MaxItems)
	}
	for i := range q {
		it := &q[i]
		if len(it.Types) > MaxItemTypes {
			return mainstem.Errorf(mainstem.KindInvalid, op, "item %d has %d types: the limit is %d", i, len(it.Types), MaxItemTypes)
		}
		for _, typ := range it.Types {
			if err := (&Event{Type: typ}).check(op, i, 0); err != nil {
				return mainstem.Errorf(mainstem.KindInvalid, op, "item %d: %w", i, err)
			}
		}
		if len(it.Tags) > MaxTags {
			return mainstem.Errorf(mainstem.KindInvalid, op, "item %d has %d tags: no event has more than %d", i, len(it.Tags), MaxTags)
		}
		for _, tag := range it.Tags {
			if err := checkTag(tag); err != nil {
				return mainstem.Errorf(mainstem.KindInvalid, op, "item %d: %w", i, err)
			}
		}
	}
	return nil
}

// QueryOptions tune [Store.Query]. Nil and the zero value select all events of the query, oldest
// first.
type QueryOptions struct {
	After    mainstem.Position // the cursor: only events after this position in the order asked for, exclusive; 0: from the beginning
	Limit    int               // at most this many events; 0 means no limit
	Backward bool              // newest first
	Follow   bool              // then wait for new events; not with Backward
}

// Query yields the events that q selects, in the order of their positions, each once. Events of
// archived streams are included, those of deleted streams are not. Without Follow it ends with the
// last event that existed when it began.
//
// In a store with an index ([Store.CreateIndex]) it reads records of the index, the events that it
// yields, and few others. In a store without an index, and while the index is built, it reads all
// events of the store up to the limit; with Backward it then keeps the positions of those that
// match in memory. [Store.Plan] says which of these applies. With Follow it reads every event that
// is appended later.
//
// Data is lent until the loop body returns; use [Recorded.Clone] to keep an event. The sequence
// ends after the first error; with Follow it ends with Canceled when ctx ends.
func (s *Store) Query(ctx context.Context, q Query, o *QueryOptions) iter.Seq2[Recorded, error] {
	if o == nil {
		o = &QueryOptions{}
	}
	return func(yield func(Recorded, error) bool) {
		head, err := s.log.Head(ctx)
		if err == nil {
			err = s.query(ctx, q, *o, head, func(r Recorded) bool { return yield(r, nil) })
		}
		if err != nil {
			yield(Recorded{}, err)
		}
	}
}

// query calls do for the events of q up to head, and with Follow for later ones, until do returns
// false.
func (s *Store) query(ctx context.Context, q Query, o QueryOptions, head mainstem.Position, do func(Recorded) bool) error {
	if err := q.check("query"); err != nil {
		return err
	}
	switch {
	case o.Limit < 0:
		return mainstem.Errorf(mainstem.KindInvalid, "query", "Limit is %d: want 0 (none) or more", o.Limit)
	case o.Follow && o.Backward:
		return mainstem.Errorf(mainstem.KindInvalid, "query", "Follow and Backward exclude each other")
	}
	if o.After >= head && !o.Backward && !o.Follow {
		return nil
	}
	dec := s.decoders.Get().(*decoder)
	defer s.decoders.Put(dec)
	r := &queryRun{Store: s, q: q, o: o, head: head, dec: dec, do: do}
	if err := r.throughIndex(ctx); err != nil || r.ended {
		return err
	}
	if o.Backward {
		return r.backward(ctx)
	}
	return r.forward(ctx)
}

// queryRun is one call of query.
type queryRun struct {
	*Store
	q    Query
	o    QueryOptions // After advances
	head mainstem.Position
	dec  *decoder
	do   func(Recorded) bool

	n     int  // events yielded
	ended bool // no further event is needed, or there is none
}

// record passes the event in rec to do if it matches. It returns false when no further event is
// needed.
func (r *queryRun) record(rec *mainstem.Record) (bool, error) {
	if !rec.Live() {
		return true, nil
	}
	f := &r.dec.f
	if err := f.parse(rec.Headers); err != nil || !r.q.matches(f) {
		if err != nil {
			err = mainstem.Errorf(mainstem.KindCorrupt, "decode", "version %d: %w", rec.Version, err).At(rec.Space, rec.Key)
		}
		return err == nil, err
	}
	ev, err := r.dec.recorded(rec, r.dec.intern(rec.Key))
	if err != nil {
		return false, err
	}
	r.n++
	r.ended = !r.do(ev) || r.n == r.o.Limit
	return !r.ended, nil
}

// throughIndex reads by the index as far as possible: up to head, or until there is no index. After
// then says where to continue. The positions from the index that the handle knows are used only if
// that index is still the present one after its records have been read; see [indexScan].
func (r *queryRun) throughIndex(ctx context.Context) error {
	for x := r.index.Load(); ; x = nil {
		if !x.readable() {
			var err error
			if x, err = r.readIndex(ctx); err != nil || !x.readable() {
				return err
			}
		}
		want := wanted{direction: direction{r.o.Backward}, from: max(r.o.After, r.o.After+1), most: r.o.Limit}
		root, err := r.plan(ctx, x, r.q, want)
		if err != nil {
			return err
		}
		if root == nil { // this index has no key for the query; only the present index needs to be checked
			same, err := r.same(ctx, x)
			if err != nil || same {
				return err
			}
			continue
		}
		scan := &indexScan{direction: want.direction, Store: r.Store, x: x, root: root, after: r.o.After, head: r.head, most: r.o.Limit}
		all, err := scan.each(ctx, r.record)
		r.o.After = scan.after
		r.ended = r.ended || all && !r.o.Follow
		if err != nil || all || r.ended {
			return err
		}
	}
}

// forward reads the feed of the store in order.
func (r *queryRun) forward(ctx context.Context) error {
	for rec, err := range r.log.Feed(ctx, mainstem.Filter{Spaces: []string{r.spaces.events}, After: r.o.After, Follow: r.o.Follow}) {
		if err != nil {
			return err
		}
		if rec.Position > r.head && !r.o.Follow {
			return nil
		}
		if more, err := r.record(&rec); !more {
			return err
		}
	}
	return nil
}

// backward reads the feed of the store, keeps the positions of the matches (with a limit, the last
// of them), and then reads the events.
func (r *queryRun) backward(ctx context.Context) error {
	var found []mainstem.Position
	for rec, err := range r.log.Feed(ctx, mainstem.Filter{Spaces: []string{r.spaces.events}}) {
		if err != nil {
			return err
		}
		if rec.Position > r.head || r.o.After > 0 && rec.Position >= r.o.After {
			break
		}
		if !rec.Live() || r.dec.f.parse(rec.Headers) != nil || !r.q.matches(&r.dec.f) {
			continue
		}
		if most := r.o.Limit - r.n; r.o.Limit > 0 && len(found)/2 >= most { // 2*most may overflow
			found = append(found[:0], found[len(found)-most+1:]...)
		}
		found = append(found, rec.Position)
	}
	for _, p := range slices.Backward(found) {
		more, err := r.eventAt(ctx, p, r.record)
		if !more {
			return err
		}
	}
	return nil
}

// plan returns the sequence of the positions that the index has for q: those of all events that q
// selects, and perhaps of others. It is nil if the index has no key for an item.
func (s *Store) plan(ctx context.Context, x *index, q Query, want wanted) (positions, error) {
	union := &anyOf{direction: want.direction}
	for i := range q {
		groups := x.groups(&q[i])
		if groups == nil {
			return nil, nil
		}
		all := &allOf{}
		for _, keys := range groups {
			one := &anyOf{direction: want.direction}
			for _, key := range keys {
				read, err := s.openKey(ctx, x, key, want, len(groups) > 1)
				if err != nil {
					return nil, err
				}
				one.of = append(one.of, read)
			}
			all.of = append(all.of, one)
			if len(groups) > 1 && one.count() == 0 { // the intersection is empty too
				all.of = []positions{one}
				break
			}
		}
		all.dropLongest()
		union.of = append(union.of, all)
	}
	return union, nil
}

// dropMany is the factor by which a sequence must be longer than the shortest not to be read:
// comparing the events themselves with the query is then cheaper.
const dropMany = 16

// dropLongest removes the sequences that are much longer than the shortest.
func (a *allOf) dropLongest() {
	shortest := a.count()
	a.of = slices.DeleteFunc(a.of, func(one positions) bool { return one.count() > dropMany*max(shortest, 1) })
}

// groups returns groups of keys of the index. The events of the item are in the intersection of the
// groups, where a group is the union of its keys. It is nil if there are none, as for an empty item
// if the index has no key for all events.
func (x *index) groups(it *Item) (groups [][][]byte) {
	var types [][]byte
	paired := make([]bool, len(it.Tags))
	for _, typ := range it.Types {
		types = append(types, indexKey(typeKey, typ, ""))
	}
	if len(it.Types) == 1 { // the pair is the intersection of type and tag
		for i, tag := range it.Tags {
			if paired[i] = x.paired(it.Types[0], tag); paired[i] {
				groups, types = append(groups, [][]byte{indexKey(pairKey, it.Types[0], tag)}), nil
			}
		}
	}
	for i, tag := range it.Tags {
		if !paired[i] {
			groups = append(groups, [][]byte{indexKey(tagKey, tag, "")})
		}
	}
	switch {
	case types != nil:
		groups = append(groups, types)
	case groups == nil && x.All:
		groups = [][][]byte{{indexKey(allKey, "", "")}}
	}
	return groups
}

// openKey returns the sequence of the events of a key, from before the index was built and since.
// If the sequence is compared with others, its count includes both.
func (s *Store) openKey(ctx context.Context, x *index, key []byte, want wanted, compared bool) (positions, error) {
	if compared {
		want.most = 0
	}
	now := &keyRead{wanted: want, log: s.log, space: s.spaces.tags, key: key}
	if x.Since == 0 || !want.back && want.from > x.Since {
		return now, now.open(ctx)
	}
	built := &keyRead{wanted: want, log: s.log, space: s.spaces.tags, key: append([]byte(builtPrefix), key...)}
	two := &twoKeys{first: built, second: now}
	if want.back {
		two.first, two.second = now, built
	}
	err := two.first.open(ctx)
	if err == nil && compared {
		err = two.openSecond(ctx)
	}
	return two, err
}

// Plan describes how [Store.Query] reads the events of q now: from the feed of the whole store, or
// from which keys of the index.
func (s *Store) Plan(ctx context.Context, q Query) (string, error) {
	if err := q.check("plan"); err != nil {
		return "", err
	}
	x, err := s.readIndex(ctx)
	if err != nil {
		return "", err
	}
	switch {
	case !x.exists():
		return "all events: the store has no index", nil
	case x.State == stateBuilding:
		return "all events: the index is being built", nil
	case x.moved:
		return "all events: the index came from another log; Retag builds it anew", nil
	}
	items := make([]string, len(q))
	for i := range q {
		groups := x.groups(&q[i])
		if groups == nil {
			return "all events: the index has no key for every event", nil
		}
		all := make([]string, len(groups))
		for j, keys := range groups {
			n := uint64(0)
			for _, key := range keys {
				held, err := s.held(ctx, x, key)
				if err != nil {
					return "", err
				}
				n += held
			}
			all[j] = fmt.Sprintf("%s (%d)", strings.ReplaceAll(string(slices.Concat(slices.Collect(joined(keys))...)), "\x00", " "), n)
		}
		items[i] = strings.Join(all, " and ")
	}
	return "index: " + strings.Join(items, "; or "), nil
}

// held returns the number of records of a key of the index, assuming that none were removed between
// the oldest and the newest.
func (s *Store) held(ctx context.Context, x *index, key []byte) (n uint64, err error) {
	keys := [][]byte{key, append([]byte(builtPrefix), key...)}
	if x.Since == 0 {
		keys = keys[:1]
	}
	for _, key := range keys {
		k := &keyRead{log: s.log, space: s.spaces.tags, key: key}
		if err := k.open(ctx); err != nil {
			return 0, err
		}
		if n += k.total; k.ended {
			continue
		}
		oldest, _, err := k.probe(ctx, 1)
		if err != nil {
			return 0, err
		}
		if oldest == 0 { // all records before the newest page were removed
			oldest = k.end + 1
		}
		n -= uint64(oldest) - 1
	}
	return n, nil
}

// joined yields keys with " or " between them.
func joined(keys [][]byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i, key := range keys {
			if i > 0 && !yield([]byte(" or ")) || !yield(key) {
				return
			}
		}
	}
}
