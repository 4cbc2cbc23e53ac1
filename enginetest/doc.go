// Package enginetest x
package enginetest
