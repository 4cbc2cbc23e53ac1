package viewhttp

import (
	"net/http"
	"slices"
)

// routes are all routes. Of two that match a path the first has it.
var routes []route

// The table is made before anything is served; handlers refer to it, so it cannot be the
// initial value of the variable.
func init() {
	routes = slices.Concat(kvRoutes(), eventRoutes(), topicRoutes(), commitRoutes(), openAPIRoutes())
}

// Parameters that several operations have.
var (
	ofIdempotency = parameter{inHeader, headerKey, "string", false, "1 to 255 bytes: the request is made once, however often it is sent within 24 hours"}
	ofLastID      = parameter{inHeader, headerLastID, "string", false, "of a follower: the id of the last event that it got"}
	ofLimit       = parameter{inQuery, "limit", "integer", false, "at most so many entries, 10000 at most; 100 if it is not there"}
	ofAt          = parameter{inQuery, "at", "string", false, "as it was at this position of the log or this time, as far as the table keeps its history"}
	ofReverse     = parameter{inQuery, "reverse", "boolean", false, "from the last to the first"}
	ofAs          = parameter{inQuery, "as", "string", false, "how values are shown: text (base64 where they are not UTF-8), json (text where they are no JSON) or base64"}
	ofTTL         = parameter{inHeader, headerTTL, "string", false, "the value expires so long after it was written: 30m; 0 means never"}
	ofIfMatch     = parameter{inHeader, "If-Match", "string", false, `"REVISION": only if the key has a value and this revision; *: only if it has a value`}
	ofIfNoneMatch = parameter{inHeader, "If-None-Match", "string", false, "*: only if the key has no value"}
)

// text64 returns the two parameters that hold a text, and base64 of any bytes.
func text64(name, help string) []parameter {
	return []parameter{
		{inQuery, name, "string", false, help},
		{inQuery, name + "64", "string", false, "the same in base64, for bytes that are no UTF-8"},
	}
}

// with puts lists of parameters together.
func with(lists ...[]parameter) []parameter {
	var all []parameter
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func ok(schema, help string) reply { return reply{status: http.StatusOK, schema: schema, help: help} }

func failed(status int, help string) reply {
	return reply{status: status, schema: "problem", help: help}
}

func done(help string) reply { return reply{status: http.StatusNoContent, help: help} }

func kvRoutes() []route {
	key := []parameter(nil)
	byKey := text64("key", "the key")
	return []route{
		{"/v1/kv", []operation{{
			method: http.MethodGet, id: "listDatabases", summary: "List the databases", serve: getDatabases,
			answers: []reply{ok("databases", "the names of all databases that have a table")},
		}}},
		{"/v1/kv/{db}", []operation{
			{
				method: http.MethodGet, id: "listTables", summary: "List the tables of a database", serve: getDatabase,
				answers: []reply{ok("tables", "the tables"), failed(http.StatusNotFound, "the database has no tables")},
			},
			{
				method: http.MethodDelete, id: "dropDatabase", summary: "Drop all tables of a database", serve: dropDatabase,
				answers: []reply{done("they are gone"), failed(http.StatusNotFound, "the database has no tables")},
			},
		}},
		{"/v1/kv/{db}/{table}", tableOperations()},
		{"/v1/kv/{db}/{table}/by-key", keyOperations("ByKey", byKey)},
		{"/v1/kv/{db}/{table}/{key}", keyOperations("", key)},
	}
}

func tableOperations() []operation {
	return []operation{
		{
			method: http.MethodGet, id: "listKeys", summary: "List or watch a table", serve: getTable,
			parameters: with(
				text64("prefix", "only keys that begin so"), text64("suffix", "only keys that end so"),
				text64("start", "only keys from this on"), text64("end", "only keys before this"),
				text64("after", "only keys that come after this: next of the page before"),
				[]parameter{
					ofLimit, ofReverse, {inQuery, "keys", "boolean", false, "without values"}, ofAs, ofAt,
					{inQuery, "index", "string", false, "a page in the order of this index"},
					{inQuery, "value", "string", true, "with index: only entries with this value in it; of an index of several parts one for each, from the first on"},
					{inQuery, "updates", "boolean", false, "of a watch: leave out the current values"},
					{inQuery, "history", "boolean", false, "of a watch: begin with all revisions that are kept"}, ofLastID,
				},
			),
			answers: []reply{
				{status: http.StatusOK, schema: "entries", lines: true, events: true, help: "a page; all entries as lines; or the values and then every change as events put, delete, purge, expire and synced"},
				failed(http.StatusNotFound, "there is no such index"),
				failed(http.StatusGone, "what came after Last-Event-ID may be gone: watch anew without it; or the table does not keep what it held then"),
				failed(http.StatusNotImplemented, "the table is not in feeds, and cannot be watched"),
			},
		},
		{
			method: http.MethodPost, id: "putKeys", summary: "Write many keys in one commit", serve: postTable,
			parameters: []parameter{ofIdempotency}, body: "pair", list: true,
			answers: []reply{ok("writtenMany", "all are written"), failed(http.StatusConflict, "a condition does not hold, and nothing was written")},
		},
		{
			method: http.MethodDelete, id: "dropTable", summary: "Drop a table with all it holds", serve: dropTable,
			answers: []reply{done("it is gone"), failed(http.StatusNotFound, "there is no such table")},
		},
	}
}

// keyOperations are those of one key, which the path or the query names.
func keyOperations(by string, key []parameter) []operation {
	return []operation{
		{
			method: http.MethodGet, id: "getKey" + by, summary: "Read a key", serve: getKey,
			parameters: with(key, []parameter{
				{inQuery, "revision", "integer", false, "this revision, as far as the table keeps it"}, ofAt,
				{inHeader, "If-None-Match", "string", false, `"REVISION": 304 if it still is the newest`},
			}),
			answers: []reply{
				ok("bytes", "the value, with ETag, Mainstem-Revision, Mainstem-Position, Mainstem-Expires and Mainstem-Meta-*"),
				{status: http.StatusNotModified, help: "the revision of If-None-Match is the newest"},
				failed(http.StatusNotFound, "the key has no value; of one that was deleted with Mainstem-Revision"),
				failed(http.StatusGone, "the table does not keep what it held then"),
			},
		},
		{
			method: http.MethodPut, id: "putKey" + by, summary: "Write a key", serve: putKey, body: "bytes",
			parameters: with(key, []parameter{ofIfMatch, ofIfNoneMatch, ofTTL, {inHeader, headerMeta + "*", "string", false, "metadata of the value, under the name after the last dash in lower case"}, ofIdempotency}),
			answers:    []reply{ok("written", "it is written"), failed(http.StatusPreconditionFailed, "the condition does not hold")},
		},
		{
			method: http.MethodPost, id: "incrementKey" + by, summary: "Add to a counter", serve: postKey, body: "increment",
			parameters: with(key, []parameter{{inQuery, "op", "string", false, "increment"}, ofTTL, ofIdempotency}),
			answers:    []reply{ok("written", "the counter after it"), failed(http.StatusConflict, "the value is not a whole number")},
		},
		{
			method: http.MethodDelete, id: "deleteKey" + by, summary: "Delete a key", serve: deleteKey,
			parameters: with(key, []parameter{{inQuery, "purge", "boolean", false, "its older revisions, too"}, ofIfMatch, ofIfNoneMatch, ofIdempotency}),
			answers:    []reply{ok("written", "the key has no value; revision 0 if it had none before"), failed(http.StatusPreconditionFailed, "the condition does not hold")},
		},
	}
}
