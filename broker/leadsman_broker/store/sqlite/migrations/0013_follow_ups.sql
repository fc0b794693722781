-- What an ack was answered for the tasks it handed in, so that a repeated one gets the same answer.

ALTER TABLE ended ADD COLUMN follow_ups TEXT;
