package lint

// Exceptions are the places where a rule is right to be broken. One that is no
// longer needed fails the tests.
var Exceptions = []Exception{
	{"sleep", "enginetest/enginetest.go:env.pass", "an engine without a clock of the suite's can only be waited for"},
	{"sleep", "enginetest/enginetest.go:env.eventually", "this is the helper that asks again until its patience ends"},
	{"sleep", "enginetest/case_live.go:manyFollowers", "a slow follower is what the case needs; nothing is timed by it"},

	{"sleep-in-test", "enginetest/mutant_list_test.go", "the mutant leaves a gap that a lock should have covered, for the suite to find"},

	{"pause-in-test", "internal/budget/budget_test.go:climb", "it runs in a bubble of synctest, where pauses cost nothing"},
	{"pause-in-test", "actor/actor_test.go:slowStop.Stop", "the actor runs in a bubble of synctest, where a minute costs nothing"},
	{"pause-in-test", "actor/actorprom/metrics_test.go:sleeper.Receive", "the actor runs in a bubble of synctest"},
	{"pause-in-test", "actor/cluster/clustertest/namespace_linux_test.go:hold", "how long a network is cut is what these tests are about; nothing is expected to have happened after it"},
	{"pause-in-test", "event/saga/timeout_test.go:pass", "every test that calls it runs in a bubble of synctest"},
	{"pause-in-test", "lease/harness_test.go:pass", "every test that calls it runs in a bubble of synctest"},
	{"pause-in-test", "actor/cluster/link/proxy_test.go:plan.do", "a proxy that delays what goes through it, by random, for the link to bear"},
	{"pause-in-test", "actor/cluster/shard/harness_test.go:pass", "every test that calls it runs in a bubble of synctest"},
	{"pause-in-test", "engine/remotelog/bench_test.go:followerLatency", "a benchmark of a follower that rests between commits"},
	{"pause-in-test", "wire/kafka/internal/group/program_test.go:pass", "every test that calls it runs in a bubble of synctest"},

	{"panic", "cmd/mainstem/internal/cli/args.go:Required", "the flag's name is a constant of the program; every run of it would panic, so none is released"},
	{"panic", "engine/pebblelog/failure.go:logger.Fatalf", "Pebble's contract for Fatalf is not to return; Log.write recovers and fails the commit"},
	{"panic", "enginetest/history/check.go:checker.collect", "a history in which values do not identify their writes is a mistake in a test, and would be judged wrongly"},
	{"panic", "enginetest/model/model.go:Log.Reopen", "a documented misuse by a test, without a T to fail"},
	{"panic", "enginetest/program_machine.go", "helpers of the cases that would report, used where a program returns errors: it never calls the reporter"},
	{"panic", "topic/layout.go:meta.encode", "strings, numbers and a time of this century always encode"},
	{"panic", "topic/recordbatch/codec.go", "encoders are made with constant options; the first test of a codec would panic"},
	{"panic", "alert/coordinator/handler.go:Coordinator.guard", "net/http breaks a connection off only for a panic with ErrAbortHandler"},
	{"panic", "alert/omnibus/handler.go:exchange.abort", "net/http breaks a connection off only for a panic with ErrAbortHandler"},

	{"background", "alert/coordinator/coordinator.go:Open", "what watches the servers outlives the call of Open; Close cancels it"},
	{"background", "alert/ingest/writer.go:newWriter", "one commit carries what many callers sent: none of them may cancel it for the others"},
	{"background", "engine/natslog/open.go:newLog", "goroutines and commits outlive the call of Open; Close ends them"},
	{"background", "engine/pebblelog/reclaim.go:reclaimer.start", "the reclaimer outlives the call of Open; Close cancels it"},
	{"background", "engine/pebblelog/sweep.go:startSweeper", "the sweeper outlives the call of Open; Close cancels it"},
	{"background", "engine/remotelog/log.go:Open", "followers and calls end with the log; Close cancels them"},
	{"background", "engine/remotelog/snapshot.go:snapshot.Close", "Close has no ctx by contract; closeGrace bounds it"},
	{"background", "enginetest", "the suite is test support: patience bounds each case, and the check after it has none to inherit"},
	{"background", "event/saga/simulate.go", "a simulation reads nothing and waits for nothing: there is nothing to cancel"},
	{"background", "internal/testengines/finish.go:finish", "it runs in a Cleanup, when the test's own context has ended"},
	{"background", "event/projection/projectionprom/projectionprom.go:Collector.Collect", "Prometheus gives a collector no ctx; Options.Timeout bounds it"},
	{"background", "event/projection/share.go:Engine.closeKeeper", "leases are given up when the ctx of the engine has ended; closing bounds it"},
	{"background", "server/contents.go:contents.Collect", "Prometheus gives a collector no ctx; scrapeTimeout bounds it"},
	{"background", "wire/kafka/kafkaserver/metrics.go:metrics.Collect", "Prometheus gives a collector no ctx; scrapeTimeout bounds it"},
	{"background", "server/server.go:Open", "what the server runs outlives the call of Open; Stop cancels it"},
	{"background", "topic/catalog.go:Open", "upkeep outlives the call of Open; Close cancels it"},
	{"background", "topic/send.go:Producer.send", "one commit carries the records of many callers: none of them may cancel it for the others"},
	{"background", "internal/feedtopic/follow.go:NewFollowers", "followers outlive the fetches that wait for them; Close cancels them"},
	{"background", "wire/kafka/conn.go:newConn", "a connection has no caller; the server's Shutdown and the client end it"},
	{"background", "wire/kafka/server.go:Open", "the server outlives the call of Open; Shutdown cancels it"},
	{"background", "wire/kafka/internal/group/coordinator.go:Open", "groups outlive the requests of their members; Close cancels what they wait for"},
	{"background", "wire/rpc/handler.go:NewHandler", "followers end when the handler closes; each call's own ctx is below it"},

	{"unwanted-import", "bench/contenders/codec/stream.go", "gob is one of the codecs that are measured; nothing is kept"},
	{"unwanted-import", "codec/binary/memory.go", "the one file that reads and writes the memory of values by address, as reflect does"},

	{"long-line", "docs/bench/report.md", "the bench writes it; nobody edits it line by line"},

	{"skip", "actor/cluster/clustertest/namespace_linux_test.go:needed", "network namespaces need root on Linux; the reason is shown, and where CI is set it fails instead"},
	{"skip", "bench/suite/bench.go:BenchScale", "a benchmark that takes minutes, and was asked to be short"},
	{"skip", "bench/suite/bench.go:benchEntry", "a contender that cannot run here is a skipped benchmark with its reason; the tests of contenders fail instead"},
	{"skip", "interop/java/main_test.go:needed", "Java clients need a JDK and Maven; the reason is shown, and where CI is set it fails instead"},
	{"skip", "internal/testengines/testengines.go:Each", "testengines.Skip takes the reason from the test, and it is shown"},
}
