package viewhttp

import "net/http"

// ofExpected is the header of all writes that expect a version of their stream.
var ofExpected = parameter{inHeader, headerExpected, "string", false, "any (if it is not there), none, exists, or the version that the stream must have"}

func eventRoutes() []route {
	return []route{
		{"/v1/events", []operation{{
			method: http.MethodGet, id: "listStores", summary: "List the event stores", serve: getStores,
			answers: []reply{ok("stores", "the names of all event stores")},
		}}},
		{"/v1/events/{store}", []operation{{
			method: http.MethodGet, id: "getStore", summary: "Describe an event store", serve: getStore,
			answers: []reply{ok("store", "how much it holds"), failed(http.StatusNotFound, "there is no such store")},
		}}},
		{"/v1/events/{store}/feed", []operation{{
			method: http.MethodGet, id: "getFeed", summary: "Read or follow the events of all streams", serve: getFeed,
			parameters: []parameter{
				{inQuery, "after", "integer", false, "only events after this position"},
				{inQuery, "category", "string", false, "only streams of this category: names that begin with it and a dash"},
				{inQuery, "type", "string", true, "only events of these types"},
				{inQuery, "tag", "string", true, "only events that have all of these tags; not with category, archived and deletions"},
				{inQuery, "archived", "boolean", false, "those of archived streams, too"},
				{inQuery, "deletions", "boolean", false, "events of type $deleted for streams that were deleted"},
				ofLimit, ofLastID,
			},
			answers: []reply{
				{status: http.StatusOK, schema: "feed", lines: true, events: true, help: "a page in the order of the log; all events as lines; or all and then those that come, as events of type event"},
				failed(http.StatusGone, "what came after Last-Event-ID may be gone: follow anew without it"),
			},
		}}},
		{"/v1/events/{store}/streams", []operation{{
			method: http.MethodGet, id: "listStreams", summary: "List the streams of a store", serve: getStreams,
			parameters: []parameter{
				{inQuery, "prefix", "string", false, "only names that begin so"}, {inQuery, "category", "string", false, "only streams of this category"},
				{inQuery, "after", "string", false, "only names that come after this: next of the page before"},
				ofLimit, ofReverse, {inQuery, "archived", "boolean", false, "archived streams, too"}, {inQuery, "deleted", "boolean", false, "deleted streams, too"},
			},
			answers: []reply{ok("streams", "a page in the order of names")},
		}}},
		{"/v1/events/{store}/streams/{stream}", streamOperations()},
		{"/v1/events/{store}/streams/{stream}/settings", settingsOperations()},
		{"/v1/events/{store}/streams/{stream}/snapshot", snapshotOperations()},
		{"/v1/events/{store}/subscriptions", []operation{{
			method: http.MethodGet, id: "listSubscriptions", summary: "List the subscriptions of a store", serve: getSubscriptions,
			answers: []reply{ok("subscriptions", "their names")},
		}}},
		{"/v1/events/{store}/subscriptions/{subscription}", subscriptionOperations()},
		claimRoute("claim", operation{id: "claim", summary: "Take events to handle", serve: postClaim, body: "claim", answers: []reply{ok("claimed", "the events, each with the token that confirms it; none if there are none within wait")}}),
		claimRoute("ack", operation{id: "ack", summary: "Confirm events", serve: postAck, body: "ack", answers: []reply{done("they are done")}}),
		claimRoute("nack", operation{id: "nack", summary: "Give events back", serve: postNack, body: "nack", answers: []reply{done("the action is done")}}),
		claimRoute("retry-parked", operation{id: "retryParked", summary: "Hand out parked events again", serve: postRetryParked, answers: []reply{ok("retried", "how many, and whether there are more than the buffer takes")}}),
		claimRoute("reset", operation{
			id: "reset", summary: "Begin after a position", serve: postReset, parameters: []parameter{{inQuery, "position", "integer", false, "only events after it; 0 if it is not there"}},
			answers: []reply{ok("subscription", "as it is now")},
		}),
		{"/v1/events/{store}/subscriptions/{subscription}/parked", []operation{{
			method: http.MethodGet, id: "getParked", summary: "List parked events", serve: getParked,
			parameters: []parameter{{inQuery, "after", "integer", false, "only events after this position: next of the page before"}, ofLimit},
			answers:    []reply{ok("parked", "a page in the order of their positions; next is there if there are more"), failed(http.StatusNotFound, "there is no such subscription")},
		}}},
	}
}

// claimRoute is a sub-path of a subscription that takes POST.
func claimRoute(verb string, o operation) route {
	o.method = http.MethodPost
	o.answers = append(o.answers,
		failed(http.StatusNotFound, "there is no such subscription"),
		failed(http.StatusConflict, "a token is of an older attempt, or the subscription was stopped; nothing was changed"))
	return route{"/v1/events/{store}/subscriptions/{subscription}/" + verb, []operation{o}}
}

func subscriptionOperations() []operation {
	return []operation{
		{
			method: http.MethodGet, id: "getSubscription", summary: "Describe a subscription", serve: getSubscription,
			answers: []reply{ok("subscription", "how far it is, and how it is set"), failed(http.StatusNotFound, "there is no such subscription")},
		},
		{
			method: http.MethodPut, id: "putSubscription", summary: "Make or change a subscription", serve: putSubscription, body: "subscriptionSpec",
			answers: []reply{ok("subscription", "as it is now")},
		},
		{
			method: http.MethodDelete, id: "deleteSubscription", summary: "Delete a subscription with what it has parked", serve: deleteSubscription,
			answers: []reply{done("it is gone"), failed(http.StatusNotFound, "there is no such subscription")},
		},
	}
}

func streamOperations() []operation {
	return []operation{
		{
			method: http.MethodGet, id: "getStream", summary: "Read or follow a stream", serve: getStream,
			parameters: []parameter{
				{inQuery, "from", "integer", false, "from this version on: next of the page before"},
				{inQuery, "to", "integer", false, "up to this version; backward: next of the page before"},
				{inQuery, "backward", "boolean", false, "newest first"}, ofLimit,
				{inQuery, "until", "string", false, "the stream as it was at this time"},
				{inQuery, "upTo", "integer", false, "the stream as it was at this position of the log"}, ofLastID,
			},
			answers: []reply{
				{status: http.StatusOK, schema: "events", lines: true, events: true, help: "a page; all events as lines; or all and then those that come, as events of type event"},
				failed(http.StatusNotFound, "the stream has no events; of one that was deleted with Mainstem-Version"),
				failed(http.StatusGone, "what came after Last-Event-ID may be gone: follow anew without it"),
			},
		},
		{
			method: http.MethodPost, id: "appendEvents", summary: "Append events, or archive, unarchive or truncate the stream", serve: postStream, body: "newEvent", list: true,
			parameters: []parameter{
				{inQuery, "op", "string", false, "archive, unarchive or truncate, without a body"}, {inQuery, "before", "integer", false, "of truncate: the oldest version to keep"},
				ofExpected, ofIdempotency,
			},
			answers: []reply{
				{status: http.StatusCreated, schema: "appended", help: "the events are appended"},
				done("op is done"),
				failed(http.StatusNotFound, "the stream has no events, or is not archived"),
				failed(http.StatusConflict, "the stream is not as expected: expected, actual and deleted say how it is"),
				failed(http.StatusLocked, "the stream is archived or tombstoned, and takes no events"),
			},
		},
		{
			method: http.MethodDelete, id: "deleteStream", summary: "Delete a stream", serve: deleteStream,
			parameters: []parameter{
				{inQuery, "tombstone", "boolean", false, "the stream never begins again"}, {inQuery, "forget", "boolean", false, "without a trace"},
				ofExpected, ofIdempotency,
			},
			answers: []reply{
				done("its events are gone"),
				failed(http.StatusNotFound, "the stream has no events, and exists was expected"),
				failed(http.StatusConflict, "the stream is not as expected"),
				failed(http.StatusLocked, "the stream is archived or tombstoned"),
			},
		},
	}
}

func settingsOperations() []operation {
	return []operation{
		{
			method: http.MethodGet, id: "getSettings", summary: "Read the settings of a stream", serve: getSettings,
			answers: []reply{ok("settings", "the settings; of a stream without them an empty object")},
		},
		{
			method: http.MethodPut, id: "putSettings", summary: "Replace the settings of a stream", serve: putSettings, body: "settings",
			parameters: []parameter{ofIdempotency},
			answers:    []reply{done("they are replaced")},
		},
	}
}

func snapshotOperations() []operation {
	return []operation{
		{
			method: http.MethodGet, id: "getSnapshot", summary: "Read the newest snapshot of a stream", serve: getSnapshot,
			parameters: []parameter{{inQuery, "upTo", "integer", false, "the newest of a version up to this"}},
			answers:    []reply{ok("bytes", "the state, with Mainstem-Version and Mainstem-Type"), failed(http.StatusNotFound, "there is none")},
		},
		{
			method: http.MethodPut, id: "putSnapshot", summary: "Save a snapshot of a stream", serve: putSnapshot, body: "bytes",
			parameters: []parameter{
				{inHeader, headerVersion, "integer", false, "the version of the last event that the state contains"},
				{inHeader, headerType, "string", false, "what the state is, and in which form"}, ofIdempotency,
			},
			answers: []reply{done("it is saved"), failed(http.StatusNotFound, "the stream has no events")},
		},
		{
			method: http.MethodDelete, id: "deleteSnapshots", summary: "Delete the snapshots of a stream", serve: deleteSnapshots,
			answers: []reply{done("they are gone")},
		},
	}
}
