package viewhttp

import "net/http"

func topicRoutes() []route {
	return []route{
		{"/v1/topics", []operation{{
			method: http.MethodGet, id: "listTopics", summary: "List the topics", serve: getTopics,
			answers: []reply{ok("topics", "the names of all topics")},
		}}},
		{"/v1/topics/{topic}", topicOperations()},
		{"/v1/topics/{topic}/partitions", []operation{{
			method: http.MethodGet, id: "getPartitions", summary: "Describe a topic", serve: getPartitions,
			answers: []reply{ok("topic", "its partitions and what they hold"), failed(http.StatusNotFound, "there is no such topic")},
		}}},
		{"/v1/topics/{topic}/groups/{group}", []operation{
			{
				method: http.MethodGet, id: "getGroup", summary: "Read where a consumer group goes on", serve: getGroup,
				answers: []reply{ok("groupOffsets", "the offset that is next, by partition"), failed(http.StatusNotFound, "there is no such topic")},
			},
			{
				method: http.MethodPut, id: "putGroup", summary: "Store where a consumer group goes on", serve: putGroup, body: "groupOffset", list: true,
				parameters: []parameter{ofIdempotency},
				answers:    []reply{done("it is stored"), failed(http.StatusNotFound, "there is no such topic")},
			},
		}},
		groupRoute("claim", operation{
			id: "claimRecords", summary: "Take records to handle", serve: postGroupClaim, body: "recordClaim", parameters: []parameter{ofAs},
			answers: []reply{ok("claimedRecords", "the records, each with the token that confirms it; none if there are none within wait")},
		}),
		groupRoute("ack", operation{id: "ackRecords", summary: "Confirm records", serve: postGroupAck, body: "ack", answers: []reply{done("they are done")}}),
		groupRoute("nack", operation{id: "nackRecords", summary: "Give records back", serve: postGroupNack, body: "recordNack", answers: []reply{done("the action is done")}}),
	}
}

// groupRoute is a sub-path of a group that takes POST.
func groupRoute(verb string, o operation) route {
	o.method = http.MethodPost
	o.answers = append(o.answers, failed(http.StatusNotFound, "there is no such topic"))
	if verb != "claim" {
		o.answers = append(o.answers, failed(http.StatusConflict, "a token is of an older attempt; nothing was changed"))
	}
	return route{"/v1/topics/{topic}/groups/{group}/" + verb, []operation{o}}
}

func topicOperations() []operation {
	return []operation{
		{
			method: http.MethodGet, id: "getRecords", summary: "Read or follow a topic", serve: getTopic,
			parameters: []parameter{
				{inQuery, "partition", "integer", true, "of a page the partition, 0 if it is not there; of a follower those to follow, all if it is not there"},
				{inQuery, "offset", "integer", false, "from this offset on: next of the page before"}, ofLimit, ofAs,
				{inQuery, "fromEnd", "boolean", false, "of a follower: only records that will come"}, ofLastID,
			},
			answers: []reply{
				{status: http.StatusOK, schema: "records", events: true, help: "a page of one partition; or all records and then those that come, as events of type record, whose id says the next offset of each partition"},
				failed(http.StatusNotFound, "there is no such topic or partition"),
				failed(http.StatusGone, "retention has removed the offset, or the topic was made anew with fewer records"),
			},
		},
		{
			method: http.MethodPost, id: "publish", summary: "Publish records", serve: postTopic, body: "newRecord", list: true,
			parameters: []parameter{ofIdempotency},
			answers: []reply{
				{status: http.StatusCreated, schema: "published", help: "they are published: base is the offset of the first record of a batch"},
				failed(http.StatusNotFound, "there is no such topic"),
			},
		},
		{
			method: http.MethodPut, id: "putTopic", summary: "Create a topic, or check that it is so", serve: putTopic, body: "topicSpec",
			answers: []reply{ok("topic", "the topic is there, as asked"), failed(http.StatusConflict, "there is one that differs")},
		},
		{
			method: http.MethodDelete, id: "deleteTopic", summary: "Delete a topic with all records", serve: deleteTopic,
			answers: []reply{done("it is gone"), failed(http.StatusNotFound, "there is no such topic")},
		},
	}
}

func commitRoutes() []route {
	return []route{{"/v1/commit", []operation{{
		method: http.MethodPost, id: "commit", summary: "One commit over all views", serve: postCommit, body: "commit",
		parameters: []parameter{ofIdempotency},
		answers: []reply{
			{status: http.StatusCreated, schema: "committed", help: "all of it is written; results are in the order of do"},
			failed(http.StatusNotFound, "there is no such topic, or alert table"),
			failed(http.StatusConflict, "a condition does not hold, and nothing was written"),
			failed(http.StatusLocked, "a stream is archived or tombstoned, and nothing was written"),
			failed(http.StatusNotImplemented, "the server keeps no alert tables"),
		},
	}}}}
}
