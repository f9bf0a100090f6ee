// Package dockerfile reads build instructions: whole Dockerfiles, and the single instructions that change an image's
// config. It runs nothing and knows neither images nor containers but as configs.
//
// A build goes through it in this order: Parse the file; Resolve it with the request's arguments and target into a Plan;
// for each stage that is needed Begin a State from the config of the image below it, take a Scope from the Plan, and
// then for each instruction Expand it, carry it out (RUN: State.Run and Scope.DescribeRun; COPY and ADD: their own
// fields and State.DescribeCopy; all others: State.Edit and State.Describe).
package dockerfile
