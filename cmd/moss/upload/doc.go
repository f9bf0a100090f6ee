// Package upload packs the context of a build: a folder of the user's as a tar stream, in an order of its own, without what
// .dockerignore names. What is left out is a saving only: the engine reads the same patterns. It knows neither the API nor
// what a Dockerfile says.
package upload
