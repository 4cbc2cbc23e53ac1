// Package soak keeps the embedded engine under a steady load, and says what waited
// how long: the times of commits while tables in memory freeze, are written to
// sorted files and are compacted, and whether memory, goroutines, files and times
// grow with the hours.
//
// # How it measures
//
// [Run] puts keys, each once; closes the log and opens it again; measures commits
// at a low rate, by which no table freezes; finds the highest rate that writers
// reach who wait for nothing; and then commits at a part of that rate for as long
// as asked, with a [Sample] of each second.
//
// Commits of the low and of the steady rate have a schedule. A commit that begins
// late because the one before took long counts from when it was to begin, so that
// a stop of one second is not one slow commit but all that should have begun in it.
// Only what the timer of the operating system was late by does not count; it has a
// number of its own.
//
// # Testing
//
// Schedules are tested in virtual time. A short soak runs on a real directory.
package soak
