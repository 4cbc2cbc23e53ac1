package ingest

// builtinTables are the tables that every mapping may name; one of the file's own
// with the same name takes its place. The keys are in lower case.
var builtinTables = map[string]map[string]string{
	// severity: words for the severities of alerts, as many systems have them.
	"severity": {
		"clear": "0", "cleared": "0", "ok": "0", "normal": "0", "resolved": "0", "up": "0",
		"resolution":    "1", // a resolution has to be above 0 to clear others
		"indeterminate": "1", "unknown": "1", "info": "1", "information": "1", "informational": "1", "notice": "1", "none": "1", "debug": "1", "trace": "1",
		"warning": "2", "warn": "2", "low": "2",
		"minor": "3", "medium": "3", "average": "3", "moderate": "3",
		"major": "4", "error": "4", "err": "4", "high": "4",
		"critical": "5", "crit": "5", "fatal": "5", "emergency": "5", "emerg": "5", "alert": "5", "panic": "5", "page": "5", "disaster": "5", "down": "5",
		"p1": "5", "p2": "4", "p3": "3", "p4": "2", "p5": "1", "sev1": "5", "sev2": "4", "sev3": "3", "sev4": "2", "sev5": "1",
	},
	// type: words for the column Type.
	"type": {
		"problem": "1", "firing": "1", "raise": "1", "raised": "1", "trigger": "1", "down": "1", "open": "1",
		"resolution": "2", "resolved": "2", "clear": "2", "cleared": "2", "resolve": "2", "recovery": "2", "up": "2", "ok": "2", "closed": "2",
		"information": "13", "info": "13",
	},
	// syslog_severity: the severities of syslog.
	"syslog_severity": {
		"emerg": "5", "alert": "5", "crit": "5", "err": "4", "warning": "2", "notice": "1", "info": "1", "debug": "1",
	},
	// syslog_type: what is worse than a notice is a problem.
	"syslog_type": {
		"emerg": "1", "alert": "1", "crit": "1", "err": "1", "warning": "1", "notice": "13", "info": "13", "debug": "13",
	},
}

// usualTables are the tables of columns whose rule names none, for words where a
// number is wanted.
var usualTables = map[string]string{"Severity": "severity", "Type": "type"}
