// Package viewhttp serves the views of a log as JSON over HTTP: key-value tables, event
// stores, topics, subscriptions, and commits over all of them, for programs in every language.
//
// # Words
//
// A [Handler] answers the paths below /v1/. A route is a path with its methods; the table of
// routes is also what /v1/openapi.yaml is made of. A problem is an error as JSON (RFC 9457).
// A follower is a request that goes on: its answer is a stream of server-sent events. An
// idempotency key makes a write that is sent twice one write.
//
//	h := viewhttp.New(log, topics, nil)
//	http.Handle("/v1/", h)
//
// Its clients need nothing of Go:
//
//	curl -X PUT  http://127.0.0.1:8080/v1/kv/app/users/42 -d '{"name":"Ada"}'
//	curl -X POST http://127.0.0.1:8080/v1/commit -d '{"do":[{"kv.put":{…}},{"event.append":{…}}]}'
//
// docs/http.md is the guide for its users.
//
// # Guarantees
//
// An answer with a status of 2xx to a write comes when the write has the durability of the log.
// A problem says by its outcome whether something may have been written: not_written is certain.
// Writes are made by the views of the log: what package kv, event and topic promise holds here.
// A write with an idempotency key, its condition, and the record that remembers the key are one
// commit: of two that run at the same time one is made, and both get the same answer.
//
// A follower yields every change once, in the order of the log. The id of an event is the
// position to go on from. Where what comes after it may have been removed since, the answer
// is 410: begin anew.
//
// # Concurrency and ownership
//
// A Handler is used by many goroutines. It owns one goroutine for each follower, which sends
// heartbeats. [Handler.Close] ends followers; close it before the log.
//
// # Limits
//
// [Options] has them: bytes of a request, followers at a time, and the memory for requests and
// answers, which is taken from a budget that may be shared. A list ends after its limit or
// after about 1 MiB, and says where to go on.
//
// # Files
//
//	handler.go, options.go                  the handler: tokens, limits, its end
//	route.go, routes.go                     the table of routes, and how a path finds its route
//	call.go, params.go, body.go, parts.go,
//	answer.go                               one request: parameters, body, answer
//	problem.go, status.go                   errors as problems, kinds as statuses
//	value.go, number.go                     values and numbers in JSON
//	idempotency.go, wait.go                 Idempotency-Key and Mainstem-Wait-For
//	page.go, stream.go, resume.go           lists, answers that go on, and whether they can
//	kv*.go, event*.go, topic*.go            the views
//	claim*.go, subscription.go              subscriptions: the state, its commits, the requests
//	commit.go, plan.go                      commits over all views, and what they did
//	openapi.go                              the description of all of it
//
// # Testing
//
// The tests send requests to a real server, and compare every status with those that
// /v1/openapi.yaml says. The commands of docs/http.md are run with curl.
//
//snippet:var topics *topic.Catalog
//snippet:import viewhttp "github.com/mainstemdev/mainstem/wire/http"
package viewhttp
