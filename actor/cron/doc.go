// Package cron implements actors that run jobs at times of the calendar: each minute, on weekdays
// at eight, on the first of the month.
//
// # Nouns
//
// A [Job] is a name, a spec that says when the job is due, and a function. A [Cron] is a reference
// to an actor that has jobs. Specs have five fields, minute, hour, day of the month, month and day
// of the week, or six with seconds before them:
//
//	30 8 * * MON-FRI     at half past eight on weekdays
//	*/15 * * * * *       every fifteen seconds
//	@daily @every 90s    descriptors
//	CRON_TZ=Asia/Tokyo 0 6 * * ?
//
// They are those of github.com/robfig/cron, which parses them. An Example shows two jobs.
//
// # Guarantees
//
// Jobs run in the turn of the actor, one at a time. A job runs once each time that it is due. If it
// was due several times while the actor could not run it (the process was suspended, another job
// took long), it runs once, with the first of these times. An error or panic of a job is logged and
// shown by [Cron.Jobs]; the job stays. Nothing is stored: a job that is due while the program does
// not run is not run for that time.
//
// In a time zone with summer time, a job that is due in the hour that is skipped does not run that
// day, and one that is due in the hour that comes twice may run twice.
//
// # Concurrency and ownership
//
// A Cron may be used by any goroutine, except that jobs must not call its methods: these wait for
// the actor, which waits for the job. For the same reason a job should not block. The actor is
// stopped like any other, by its reference or its parent, and its jobs end with it.
//
// # Limits
//
// [MaxJobs], [MaxSpec]. The actor reads the clock at least once in [Look] while it has jobs, so
// that it notices when the clock was set or the machine slept. Jobs do not keep an actor from being
// idle, so do not set the option Idle.
//
// # Testing
//
// Jobs come due in the virtual time of testing/synctest. [Times] lists when a spec is due.
package cron
