// Package cron has actors that do things at times of the day: each minute, on weekdays
// at eight, on the first of the month.
//
// # Nouns
//
// A [Job] is a name, a spec that says when it is due, and what to do then. A [Cron]
// refers to an actor that has jobs. Specs have five fields, minute, hour, day of the month,
// month and day of the week, or six with seconds before them:
//
//	30 8 * * MON-FRI     at half past eight on weekdays
//	*/15 * * * * *       every fifteen seconds
//	@daily @every 90s    descriptors
//	CRON_TZ=Asia/Tokyo 0 6 * * ?
//
// They are those of github.com/robfig/cron, which parses them.
//
// # Guarantees
//
// A job is done in the turn of the actor, one at a time. It is done once each time that
// it is due; what was due several times while the actor could not run (the process was suspended,
// another job took long) is done once. An error or panic of a job is logged and
// shown by [Cron.Jobs]; the job stays. Nothing is kept on disk: what is due while the program
// does not run is not done.
//
// In a time zone with summer time, what is due in the hour that is skipped is not
// done that day, and what is due in the hour that comes twice may be done twice.
//
// # Concurrency and ownership
//
// A Cron may be used by any goroutine, except that its calls wait for the actor: a job
// must not make them, and should not block. It is stopped like other actors, by its
// reference or its parent, and jobs end with it.
//
// # Limits
//
// [MaxJobs], [MaxSpec]. The clock is looked at once in [Look] at least, so that a clock that
// is set, or a machine that slept, is noticed.
//
// # Testing
//
// Jobs come due in the virtual time of testing/synctest. [Times] lists when a spec is due.
package cron
