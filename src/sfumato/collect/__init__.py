"""The collector: respondents answer, only blurred reports leave them, owners watch the crowd."""
